"""What is computed: nodes, tensors and edges (`ir`), their rules (`verify`), text form (`text`), pictures
(`dot`), `builder`.
"""

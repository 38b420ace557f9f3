"""MindIR's messages as far as they are needed: names and numbers of fields, which are public facts of its
file format.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ascendsim.frontends.protobuf import message_class

# kinds of an attribute's value, which it has as a plain number so that later versions can be read
FLOAT, BOOL, DOUBLE, STRING = 1, 9, 11, 8
INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
TENSOR, TENSORS, TUPLE, LIST = 17, 19, 20, 21
_MESSAGES = {
    "AttributeProto": "1 name string; 2 f float; 3 i int64; 4 d double; 5 s bytes; 6 t TensorProto; "
    "8 floats float*; 9 doubles double*; 10 ints int64*; 11 strings bytes*; 12 tensors TensorProto*; "
    "16 type int32; 17 values AttributeProto*",
    "ValueInfoProto": "1 name string; 2 tensor TensorProto*; 5 attr_info AttributeProto",
    "NodeProto": "1 input string*; 2 output string*; 3 name string; 4 op_type string; "
    "5 attribute AttributeProto*; 7 domain string",
    "ExternalDataProto": "1 location string; 2 offset int64; 3 length int64",
    "TensorProto": "1 dims int64*; 2 data_type int32; 7 name string; 9 raw_data bytes; "
    "12 external_data ExternalDataProto; 13 ref_key string; 16 compression_type int32",
    "GraphProto": "1 node NodeProto*; 2 name string; 3 parameter TensorProto*; 5 input ValueInfoProto*; "
    "6 output ValueInfoProto*",
    "PrimitiveProto": "1 name string; 2 op_type string; 3 attribute AttributeProto*",
    "ModelProto": "2 producer_name string; 5 model_version string; 7 graph GraphProto; "
    "10 little_endian bool=true; 12 primitives PrimitiveProto*",
}


@cache
def model_class() -> Any:
    """The class of ModelProto."""
    return message_class("ascendsim.mindir", "ModelProto", _MESSAGES, {})

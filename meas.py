import sys, ascendsim as asim
M='tests/data/models/'
for chip in ("Ascend310","Ascend310P3"):
    row=[]
    for net,b in (("resnet50",1),("resnet50",8),("mobilenet_v1",1),("vgg16",1),("yolov5s",1),("googlenet",1)):
        try: g=asim.load(M+net+'.onnx',batch=b)
        except Exception as e: row.append((net,str(e)[:40])); continue
        m=asim.compile(g,soc=chip); row.append((net,b,round(asim.simulate(m).duration_us,1)))
    print(chip,row)

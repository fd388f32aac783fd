# Where a training step of torch_train.py spends its device time: kernel names, counts and microseconds a step,
# one JSON line a job. Usage: torchrun … torch_profile.py '[["llama-8b","bf16",1,1,"single"], …]' SECONDS OUT.jsonl
import os, re, sys, json
src = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_train.py")).read()
head = src[:src.index("jobs=json.loads")]
hook = '''
    from torch.profiler import profile, ProfilerActivity
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(2):
            for a in range(accum):
                if parallel=="ddp": m.require_backward_grad_sync=(a==accum-1)
                if parallel=="fsdp": m.set_requires_gradient_sync(a==accum-1)
                with ctx: loss=mc(x,cos,sin,y)/accum
                loss.backward()
            [(o.step(),o.zero_grad(set_to_none=True)) for o in opts]
        torch.cuda.synchronize()
    kernels={}
    for e in prof.events():
        if e.device_type.name!="CUDA": continue
        k=kernels.setdefault(e.name[:160],[0,0.0]); k[0]+=0.5; k[1]+=e.device_time_total/2 if hasattr(e,"device_time_total") else e.cuda_time_total/2
    if rank==0:
        open(sys.argv[3],"a").write(json.dumps(dict(model=name,mode=mode,parallel=parallel,mbs=mbs,accum=accum,step_s=sorted(ts)[len(ts)//2],kernels=sorted(([n]+v for n,v in kernels.items()),key=lambda r:-r[2])[:90]))+"\\n")
    ts.sort()'''
head = head.replace("    ts.sort(); t=ts[len(ts)//2]; gpus=world", hook + "; t=ts[len(ts)//2]; gpus=world", 1)
exec(compile(head + src[src.index("jobs=json.loads"):], "torch_train.py", "exec"))

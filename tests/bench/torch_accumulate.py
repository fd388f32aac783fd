# Two questions that microbenchmarks of single kernels leave open, answered in the sustained regime of one GPU:
# what a weight-gradient product costs that adds into an fp32 buffer, and how attention and norms run between
# large products instead of alone. One JSON line a case to OUT.jsonl. Usage: torch_accumulate.py OUT.jsonl
import json, sys, time, torch, torch.nn.functional as F
dev = torch.device("cuda"); out = open(sys.argv[1], "a")
def emit(**k): out.write(json.dumps(k) + "\n"); out.flush()
def warm(seconds):
    a = torch.randn(8192, 8192, device=dev, dtype=torch.bfloat16); b = torch.randn_like(a); t = time.time()
    while time.time() - t < seconds:
        for _ in range(20): a @ b
        torch.cuda.synchronize()
def timed(run, n=20):
    for _ in range(3): run()
    s = torch.cuda.Event(enable_timing=True); e = torch.cuda.Event(enable_timing=True); best = []
    for _ in range(3):
        s.record()
        for _ in range(n): run()
        e.record(); torch.cuda.synchronize(); best.append(s.elapsed_time(e) / n)
    return sorted(best)[1]
warm(4)
for tokens in (1024, 2048, 4096, 8192, 16384):
    for (m, n) in ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (7168, 8192), (8192, 3584), (12288, 1536), (1536, 12288), (6144, 6144), (2048, 2048)):
        a = torch.randn(tokens, m, device=dev, dtype=torch.bfloat16); b = torch.randn(tokens, n, device=dev, dtype=torch.bfloat16)
        acc = torch.zeros(m, n, device=dev, dtype=torch.float32)
        plain = timed(lambda: torch.mm(a.t(), b))
        try:
            fp32 = timed(lambda: torch.addmm(acc, a.t(), b, out_dtype=torch.float32, out=acc))
        except Exception as error:
            fp32 = None
            try: fp32 = timed(lambda: torch.addmm(acc, a.t(), b, out_dtype=torch.float32))
            except Exception as second: emit(kind="error", text=repr(error)[:200] + repr(second)[:200])
        emit(kind="wgrad", tokens=tokens, m=m, n=n, plain_ms=plain, fp32_accumulate_ms=fp32)
big_a = torch.randn(8192, 8192, device=dev, dtype=torch.bfloat16); big_b = torch.randn_like(big_a)
def between(run, n=30):
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(n)]; ends = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    for i in range(n):
        big_a @ big_b; big_a @ big_b
        starts[i].record(); run(); ends[i].record()
    torch.cuda.synchronize(); t = sorted(s.elapsed_time(e) for s, e in zip(starts, ends)); return t[n // 2]
from torch.nn.attention import sdpa_kernel, SDPBackend
for (B, H, KV, S, D) in ((1, 32, 8, 8192, 128), (1, 32, 8, 4096, 128), (4, 16, 16, 2048, 128), (2, 32, 8, 4096, 64), (8, 20, 20, 1024, 64), (1, 8, 8, 8192, 128)):
    q = torch.randn(B, H, S, D, device=dev, dtype=torch.bfloat16, requires_grad=True); k = torch.randn(B, KV, S, D, device=dev, dtype=torch.bfloat16, requires_grad=True); v = torch.randn_like(k, requires_grad=True)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        f = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != KV)
        o = f(); g = torch.randn_like(o)
        def fb(): return torch.autograd.grad(f(), (q, k, v), g)
        emit(kind="attention", B=B, H=H, KV=KV, S=S, D=D, alone_fwd=timed(f), alone_fb=timed(fb), between_fwd=between(f), between_fb=between(fb))
for (T, Hd) in ((8192, 4096), (4096, 8192), (16384, 2048)):
    x = torch.randn(T, Hd, device=dev, dtype=torch.bfloat16); w = torch.ones(Hd, device=dev, dtype=torch.bfloat16)
    run = lambda: F.rms_norm(x, (Hd,), w, 1e-5)
    emit(kind="rms_norm", T=T, H=Hd, alone=timed(run), between=between(run))
    y = torch.randn_like(x); run = lambda: torch.add(x, y)
    emit(kind="add", T=T, H=Hd, alone=timed(run), between=between(run))
for (m, n, k) in ((8192, 8192, 8192), (8192, 28672, 4096), (4096, 4096, 14336), (2048, 8192, 8192)):
    a = torch.randn(m, k, device=dev, dtype=torch.bfloat16); b = torch.randn(n, k, device=dev, dtype=torch.bfloat16)
    x = torch.randn(8192, 8192, device=dev, dtype=torch.bfloat16)
    run = lambda: a @ b.t()
    def mixed(): a @ b.t(); torch.add(x, 1)
    emit(kind="gemm", m=m, n=n, k=k, alone=timed(run, 60), mixed=timed(mixed, 60), add=timed(lambda: torch.add(x, 1)))

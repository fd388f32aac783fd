# What products cost by alignment of their operands, and fp8 products and casts by recipe, in the sustained regime of
# one GPU: source of the alignment and recipe constants of scenarios/profiles. One JSON line a case.
# Usage: torch_formats.py OUT.jsonl
import json, sys, time, torch
dev = "cuda"; out = open(sys.argv[1], "a"); B = torch.bfloat16; E4 = torch.float8_e4m3fn
def emit(**k): out.write(json.dumps(k) + "\n"); out.flush()
def timed(run, n=20):
    for _ in range(3): run()
    s, e = (torch.cuda.Event(enable_timing=True) for _ in "se"); t = []
    for _ in range(3):
        s.record()
        for _ in range(n): run()
        e.record(); torch.cuda.synchronize(); t.append(s.elapsed_time(e) / n)
    return sorted(t)[1]
def r(*s): return torch.randn(*s, device=dev, dtype=B)
a = r(8192, 8192); t0 = time.time()
while time.time() - t0 < 4: a @ a; torch.cuda.synchronize()
for dt in (B, torch.float16):
    for T, N, K in ((8192, 4096, 4096), (4096, 8192, 8192), (8192, 14336, 4096), (2048, 4096, 4096)):
        for dn, dk in ((0, 0), (32, 32), (8, 8), (4, 4), (2, 2), (1, 1), (1, 0), (0, 1), (4, 0), (0, 4), (2, 0), (0, 2)):
            n, k = N + dn, K + dk; x, w, y = r(T, k).to(dt), r(n, k).to(dt), r(T, n).to(dt)
            emit(kind="align", type=str(dt), tokens=T, n=n, k=k, tn=timed(lambda: x @ w.t()), nn=timed(lambda: y @ w), nt=timed(lambda: y.t() @ x))
one = torch.ones((), device=dev)
def blocks(rows, k): return torch.ones(k // 128, rows, device=dev).t()
for M, N, K in ((8192, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336), (16384, 8192, 8192), (4096, 8192, 8192), (8192, 2048, 8192), (2048, 4096, 4096), (16384, 3584, 8192), (24576, 1280, 8192), (24576, 8192, 1024)):
    x, w = r(M, K).to(E4), r(N, K).to(E4); z = {}
    for name, sa, sb in (("tensor", one, one), ("row", torch.ones(M, 1, device=dev), torch.ones(1, N, device=dev)),
                         ("block_1d2d", blocks(M, K), torch.ones(N // 128, K // 128, device=dev).t()), ("block_1d1d", blocks(M, K), blocks(N, K).t())):
        for fast in (False, True):
            try: z[name + "_fast" * fast] = timed(lambda: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=B, use_fast_accum=fast))
            except Exception as error: z[name + "_fast" * fast] = str(error)[:160]
    emit(kind="fp8", m=M, n=N, k=K, **z)
def tensor(x):
    s = 448 / x.abs().max().float().clamp(min=1e-12); return (x.float() * s).clamp(-448, 448).to(E4), s
def row(x):
    s = 448 / x.abs().amax(1, keepdim=True).float().clamp(min=1e-12); return (x.float() * s).clamp(-448, 448).to(E4), s
def column(x): return row(x.t())
def block(x):
    y = x.view(x.shape[0], -1, 128); s = 448 / y.abs().amax(2, keepdim=True).float().clamp(min=1e-12)
    return (y.float() * s).clamp(-448, 448).to(E4).view_as(x), s
for T, H in ((8192, 4096), (8192, 14336), (16384, 8192), (2048, 4096)):
    x = r(T, H); z = {}
    for f in (tensor, row, column, block): g = torch.compile(f, dynamic=False); z[f.__name__] = timed(lambda: g(x))
    q = x.to(E4); z["transpose"] = timed(lambda: q.t().contiguous()); z["copy"] = timed(x.clone)
    emit(kind="cast", tokens=T, h=H, **z)

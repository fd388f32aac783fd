#!/usr/bin/python3
"""Fits the constants of scenarios/profiles/*.yaml on microbenchmarks and prints their residuals.

    tests/bench/fit_gpu_profiles.py FOLDER [gemm|attention|collectives ...]

FOLDER holds h200_grid.jsonl, h200_micro.jsonl and microbench_public.csv, and for collectives
files/nccl_tests_logs/sb_a100x8_*.log. The formulas are those of
model/gemm_cost.cpp, model/attention_cost.cpp and model/collective_cost.cpp, written a second time
for whole columns at once. Each section prints the constants and the error over all rows, then the
error of constants fitted on one half of the rows over the other half, both ways. Coordinate search
on the mean absolute log error, clipped at 30 % so that single bad rows do not steer. Needs numpy.
"""
import csv
import json
import re
import sys

import numpy as np

FLOOR_POWER = 8  # Smooth maximum of device and host time: (a^8 + b^8)^(1/8).
TILES = [(128, 256, 0), (256, 128, 0), (128, 128, 1), (64, 256, 1), (256, 64, 1), (128, 64, 2),
         (64, 128, 2), (64, 64, 3)]
SPLITS = [1, 2, 4, 8, 16]
KERNEL_GAP_US = 1.0
MIB = 2.0**20


def smooth_max(a, b):
    return (a**FLOOR_POWER + b**FLOOR_POWER) ** (1 / FLOOR_POWER)


def gemm_us(p, m, n, k, sms, element, result, batch=1.0, split=True):
    """Device time in microseconds and the split of K that was picked."""
    efficiency = [1, p["half_tile"], p["quarter_tile"], p["eighth_tile"]]
    best = np.full(len(m), 1e30)
    picked = np.ones(len(m))
    for tile_m, tile_n, size in TILES:
        for s in SPLITS if split else [1]:
            depth = np.ceil(k / s / 64) * 64
            occupancy = batch * np.ceil(m / tile_m) * np.ceil(n / tile_n) * s / sms
            waves = p["wave"] * np.ceil(occupancy) + (1 - p["wave"]) * np.maximum(occupancy, 1)
            rate = p["sustained"] * 1e6 / sms * efficiency[size]
            us = waves * 2 * tile_m * tile_n * (depth + p["depth"]) / rate
            if s > 1:
                us = us + p["split_cost"] + 4 * m * n * s * batch / (p["stream"] * 1e6)
                us = np.where(depth < 128, 1e30, us)
            picked = np.where(us < best, s, picked)
            best = np.minimum(best, us)
    memory = batch * (element * (m * k + n * k) + result * m * n) / (p["stream"] * 1e6)
    return (best**4 + memory**4) ** 0.25, picked


def attention_us(p, causal, blocks_of, s, flop, sms, factor):
    keys = np.where(causal, (s + 1) / 2, s)
    occupancy = blocks_of * np.ceil(s / p["tile"]) / sms
    # The longest block sets the least time: a full row of keys, twice the mean under a mask.
    least = np.where(causal, 2.0, 1.0)
    smooth = (occupancy**4 + least**4) ** 0.25
    waves = p["wave"] * np.maximum(np.ceil(occupancy), least) + (1 - p["wave"]) * smooth
    half = p["half"] * np.where(causal, p["causal_half"], 1)
    body = flop / (p["rate"] * 1e6 * factor) * (1 + half / keys) * waves / occupancy
    return body + p["ramp"]


def fit(start, loss, keys, rounds=30, limits=None):
    p, step = dict(start), {key: 0.15 for key in keys}
    limits = {"half_tile": (0.5, 1.03), "quarter_tile": (0.4, 1.03), "eighth_tile": (0.3, 1.03),
              "wave": (0.0, 1.0), **(limits or {})}
    best = loss(p)
    for _ in range(rounds):
        for key in keys:
            for sign in (1, -1):
                q = dict(p)
                q[key] = p[key] * (1 + sign * step[key])
                low, high = limits.get(key, (0, 1e30))
                if not low <= q[key] <= high:
                    continue
                value = loss(q)
                if value < best:
                    best, p = value, q
                    break
            else:
                step[key] *= 0.6
    return p


def report(name, predicted, measured):
    error = predicted / measured - 1
    size = np.abs(error)
    print(f"  {name:34s} rows {len(size):4d}  bias {np.median(error)*100:+5.1f} %  median "
          f"{np.median(size)*100:5.1f} %  p90 {np.percentile(size, 90)*100:5.1f} %")


def fit_and_report(name, start, predict, measured, keys, limits=None, groups=None, shapes=None):
    """predict(p, rows) -> us. `groups` maps a name to a mask; `shapes` keeps twins together."""
    everything = np.arange(len(measured))

    def loss_on(rows):
        return lambda p: np.mean(np.minimum(np.abs(np.log(predict(p, rows) / measured[rows])), 0.3))

    p = fit(start, loss_on(everything), keys, limits=limits)
    print(name, {key: float(f"{value:.4g}") for key, value in p.items()})
    report("all rows, fitted on all", predict(p, everything), measured)
    for group, mask in (groups or {}).items():
        rows = everything[mask]
        if len(rows):
            report("  " + group, predict(p, rows), measured[rows])
    rng = np.random.default_rng(1)
    if shapes is None:
        half = rng.integers(0, 2, len(measured))
    else:
        side = {shape: rng.integers(0, 2) for shape in sorted(set(shapes))}
        half = np.array([side[shape] for shape in shapes])
    predicted = np.zeros(len(measured))
    for judged in (0, 1):
        train, test = everything[half != judged], everything[half == judged]
        q = fit(start, loss_on(train), keys, rounds=15, limits=limits)
        predicted[test] = predict(q, test)
    report("other half", predicted, measured)
    for group, mask in (groups or {}).items():
        if mask.any():
            report("  other half, " + group, predicted[mask], measured[mask])
    return p


def columns(rows, *keys):
    return [np.array([float(row[key]) for row in rows]) for key in keys]


class Data:
    def __init__(self, folder):
        self.folder = folder
        with open(folder + "/h200_grid.jsonl") as file:
            self.grid = [json.loads(line) for line in file]
        with open(folder + "/h200_micro.jsonl") as file:
            self.micro = [json.loads(line) for line in file]
        with open(folder + "/microbench_public.csv") as file:
            self.public = list(csv.DictReader(file))

    def shape_rows(self, category, gpu):
        """SimuMax rows: key=value cells, value in TFLOP/s."""
        out = []
        for row in self.public:
            if row["category"] == category and row["gpu"] == gpu and "MAMF" not in row["op"]:
                cells = dict(cell.strip().split("=") for cell in row["shape_or_size"].split(","))
                out.append({**cells, "op": row["op"], "tflops": row["value"]})
        return out

    def linear_rows(self, gpu):
        """Perlmutter and Vista linear layers: columns M, N, K, us, kind."""
        out = []
        for row in self.public:
            if row["category"] != "gemm" or not row["op"].startswith("linear"):
                continue
            if not row["gpu"].startswith(gpu):
                continue
            cells = dict(cell.split("=") for cell in row["shape_or_size"].split(","))
            mp, b, l, dim = (int(cells[key]) for key in ("mp", "b", "l", "dim"))
            kind = int(row["op"][6])
            n, k = {1: (3 * dim / mp, dim), 2: (dim, dim / mp), 3: (4 * dim / mp, dim),
                    4: (dim, 4 * dim / mp)}[kind]
            out.append((b * l, n, k, float(row["time_us"]), kind))
        return np.array(out).T


def gemm_sections(data):
    start = dict(sustained=735, half_tile=0.98, quarter_tile=0.95, eighth_tile=0.85, wave=0.1,
                 depth=150, split_cost=4.0, stream=4.2, ramp=3.0)
    h200_gemm(data, start)
    h200_fp8(data, start)
    h200_grouped(data, start)
    for gpu, sms, sustained, stream in (("A100 PCIe", 108, 245, 1.65),
                                        ("B200 SXM", 148, 1200, 5.5)):
        simumax(data, gpu, sms, {**start, "sustained": sustained, "stream": stream})
    for gpu, sms, sustained, stream in (("A100-SXM4", 108, 262, 1.75), ("GH200", 132, 840, 3.6)):
        m, n, k, us, kind = data.linear_rows(gpu)
        fit_and_report(
            f"{gpu} linear layers, fp16", {**start, "sustained": sustained, "stream": stream},
            lambda p, r: gemm_us(p, m[r], n[r], k[r], sms, 2, 2)[0] + p["ramp"] + KERNEL_GAP_US,
            us, ["sustained", "half_tile", "wave", "depth", "ramp"], {"ramp": (1.5, 5)})


def h200_gemm(data, start):
    rows = [r for r in data.grid if r["kind"] == "gemm" and r["dtype"] == "bf16"]
    m, n, k, ms = columns(rows, "M", "N", "K", "ms")
    us, shapes = ms * 1e3, list(zip(m, n, k))
    # The host's launch cost drifts between 14 and 21 us over the run. For the fit only, it is taken
    # from the seven nearest short rows of the file; predictions use one constant.
    position = np.array([i for i, r in enumerate(data.grid)
                         if r["kind"] == "gemm" and r["dtype"] == "bf16"])
    device, split = gemm_us(start, m, n, k, 132, 2, 2)
    short = np.where((device < 5) & (split == 1))[0]
    host = np.array([np.median(us[short[np.argsort(np.abs(position[short] - x))[:7]]])
                     for x in position])

    def predict(p, r, floor=None):
        device, split = gemm_us(p, m[r], n[r], k[r], 132, 2, 2)
        floor = host[r] if floor is None else floor
        return smooth_max(device + p["ramp"] + KERNEL_GAP_US,
                          floor * np.where(split > 1, p["split_floor"], 1))

    start = {**start, "split_floor": 1.26}
    groups = {"device-bound, over 25 us": us > 25, "M up to 256, over 25 us": (us > 25) & (m <= 256)}
    p = fit_and_report("H200 bf16 (host cost known)", start, predict, us, list(start), None, groups,
                       shapes)
    everything = np.arange(len(us))
    for floor in (14.3, 16.0, 17.0):
        report(f"one host cost of {floor} us", predict(p, everything, floor), us)


def h200_fp8(data, start):
    rows = [r for r in data.grid if r["kind"] == "gemm" and r["dtype"] != "bf16"]
    m, n, k, ms = columns(rows, "M", "N", "K", "ms")
    fit_and_report(
        "H200 fp8", {**start, "sustained": 1480, "depth": 480, "floor": 25.5},
        lambda p, r: smooth_max(
            gemm_us(p, m[r], n[r], k[r], 132, 1, 2)[0] + p["ramp"] + KERNEL_GAP_US, p["floor"]),
        ms * 1e3, ["sustained", "depth", "ramp", "half_tile", "quarter_tile", "wave", "floor"],
        None, {"over 35 us": ms * 1e3 > 35}, list(zip(m, n, k)))


def h200_grouped(data, start):
    rows = [r for r in data.grid if r["kind"] == "grouped_gemm"]
    experts, tokens, k, n, ms = columns(rows, "experts", "tokens", "K", "N", "ms")
    plain = {**start, "half_tile": 0.99, "quarter_tile": 1.0, "wave": 0.066, "depth": 144,
             "stream": 4.27, "ramp": 3.2, "factor": 1.05, "group_cost": 0.9, "floor": 37}

    def predict(p, r):
        body = gemm_us(p, tokens[r] / experts[r], n[r], k[r], 132, 2, 2, experts[r], False)[0]
        device = (body + p["ramp"]) * p["factor"] + p["group_cost"] * experts[r] + KERNEL_GAP_US
        return smooth_max(device, p["floor"])

    fit_and_report("H200 grouped bf16", plain, predict, ms * 1e3,
                   ["factor", "group_cost", "floor"])


def simumax(data, gpu, sms, start):
    rows = data.shape_rows("gemm", gpu)
    m, n, k, tflops = columns(rows, "m", "n", "k", "tflops")
    layout = np.array([row["layout"] for row in rows])
    fp32 = np.array([row["out_dtype"] == "fp32" for row in rows])
    adds = np.array([row["accumulate"] == "True" for row in rows])
    result = np.where(fp32, 8, np.where(adds, 4, 2))
    us = 2 * m * n * k / tflops / 1e6

    def predict(p, r):
        body = gemm_us(p, m[r], n[r], k[r], sms, 2, result[r])[0]
        factor = np.where(layout[r] == "NN", p["nn"], np.where(layout[r] == "NT", p["nt"], 1))
        return body * factor + p["ramp"] + KERNEL_GAP_US

    start = {**start, "nn": 1.0, "nt": 1.03}
    p = fit_and_report(f"{gpu} bf16 (SimuMax)", start, predict, us, list(start),
                       {"ramp": (1.5, 10)},
                       {**{name: layout == name for name in ("TN", "NN", "NT")},
                        "over 1e12 FLOP": 2 * m * n * k > 1e12})
    grouped = data.shape_rows("grouped_gemm", gpu)
    groups, m, n, k, tflops = columns(grouped, "ng", "M", "N", "K", "tflops")
    stage = np.array([row["stage"] for row in grouped])
    us = 2 * groups * m * n * k / tflops / 1e6
    weight, data_gradient = stage == "bwd_grad_w", stage == "bwd_grad_act"
    rows_m = np.where(weight, n, m)
    rows_n = np.where(weight, k, np.where(data_gradient, k, n))
    depth = np.where(weight, m, np.where(data_gradient, n, k))
    result = np.where(weight, 8, 2)

    def predict_grouped(q, r):
        body = gemm_us(p, rows_m[r], rows_n[r], depth[r], sms, 2, result[r], groups[r], False)[0]
        return (body + p["ramp"]) * q["factor"] + q["group_cost"] * groups[r]

    fit_and_report(f"{gpu} grouped bf16", {"factor": 1.0, "group_cost": 1.0}, predict_grouped, us,
                   ["factor", "group_cost"], None,
                   {name: stage == name for name in ("fwd", "bwd_grad_act", "bwd_grad_w")})


def head_factor(p, dim):
    points = [32, 64, 96, 128, 192, 256]
    padded = np.ceil(dim / 32) * 32
    values = [0.75 * p["d64"], p["d64"], p["d96"], 1, p["d192"], p["d256"]]
    return (np.interp(padded, points, values) * dim / padded *
            np.where(padded == dim, 1, p["padding"]))


def attention_sections(data):
    start = dict(rate=600, d64=0.8, d96=0.85, d192=0.9, d256=0.9, padding=0.88, wave=0.05, half=200,
                 causal_half=1.5, ramp=4.0, floor=1.0, tile=128)
    rows = [r for r in data.grid if r["kind"] == "attn"]
    b, h, s, dim, forward, backward = columns(rows, "B", "H", "S", "D", "fwd_ms", "bwd_ms")
    causal = np.array([r["causal"] for r in rows])
    flop = 4 * b * h * s * np.where(causal, (s + 1) / 2, s) * dim
    for name, us, work, floor in (("forward", forward * 1e3, flop, 29),
                                  ("backward", backward * 1e3, 2.5 * flop, 120)):
        def predict(p, r, work=work):
            device = attention_us(p, causal[r], b[r] * h[r], s[r], work[r], 132,
                                  head_factor(p, dim[r]))
            return smooth_max(device + KERNEL_GAP_US, p["floor"])
        fit_and_report(f"H200 cuDNN attention {name}", {**start, "floor": floor}, predict, us,
                       ["rate", "d64", "d96", "wave", "half", "causal_half", "ramp", "floor"],
                       {"ramp": (2, 12)})
    for gpu, sms in (("A100 PCIe", 108), ("B200 SXM", 148)):
        simumax_attention(data, gpu, sms, start)
    for gpu, sms, kinds in (("A100-SXM4", 108, ("forward", "backward")),
                            ("GH200", 132, ("forward",))):
        flash_attention(data, gpu, sms, kinds, start)


def simumax_attention(data, gpu, sms, start):
    """Their rates count a causal mask's work in full."""
    for op, factor in (("sdp_fwd", 1.0), ("sdp_bwd", 2.5)):
        rows = [r for r in data.shape_rows("attention", gpu) if r["op"] == op]
        h, s, qk, v, tflops = columns(rows, "head_num", "seq_len", "qk_head_dim", "v_head_dim",
                                      "tflops")
        full = 2 * h * s * s * (qk + v) * factor
        us = full / tflops / 1e6
        flop = 2 * h * s * (s + 1) / 2 * (qk + v) * factor
        causal = np.ones(len(s), bool)
        fit_and_report(f"{gpu} attention {op} (SimuMax)", {**start, "rate": np.median(tflops) / 2, "tile": 256 if sms == 148 else 128},
                       lambda p, r: attention_us(p, causal[r], h[r], s[r], flop[r], sms,
                                                 head_factor(p, (qk[r] + v[r]) / 2)) +
                       KERNEL_GAP_US,
                       us, ["rate", "d192", "wave", "half", "ramp"], {"ramp": (2, 15)})


def flash_attention(data, gpu, sms, kinds, start):
    rows = []
    for row in data.public:
        if row["category"] == "attention" and row["gpu"].startswith(gpu):
            cells = dict(cell.split("=") for cell in row["shape_or_size"].split(","))
            backward = re.search(r"bwd ([\d.]+) us", row["notes"])
            rows.append({**cells, "forward": row["time_us"], "backward": backward.group(1)})
    mp, b, heads, s, dim = columns(rows, "mp", "b", "heads", "l", "headdim")
    full = np.zeros(len(s), bool)
    for kind in kinds:
        (us,) = columns(rows, kind)
        flop = 4 * b * heads / mp * s * s * dim * (1 if kind == "forward" else 2.5)
        fit_and_report(f"{gpu} FlashAttention-2 {kind}, no mask",
                       {**start, "rate": 200 if gpu.startswith("A100") else 390},
                       lambda p, r: attention_us(p, full[r], b[r] * heads[r] / mp[r], s[r], flop[r],
                                                 sms, head_factor(p, dim[r])) + KERNEL_GAP_US,
                       us, ["rate", "d64", "d96", "d192", "d256", "padding", "wave", "half",
                            "ramp"], {"ramp": (2, 15)})


def fit_ramp(name, tables, latency=0.0, exponents=np.arange(0.2, 1.01, 0.05)):
    """t = latency + S*factor/limit * (1 + (half*scale/S)^exponent), one curve through all tables.

    A table is (sizes, microseconds, factor, scale of the half size)."""
    best = None
    for exponent in exponents:
        for half in np.geomspace(0.01 * MIB, 4000 * MIB, 140):
            shapes = [size * factor / 1e3 * (1 + (half * scale / size) ** exponent)
                      for size, _, factor, scale in tables]
            shape = np.concatenate(shapes)
            us = np.concatenate([table[1] for table in tables])
            limit = np.exp(np.median(np.log(shape / np.maximum(us - latency, 1))))
            error = np.abs(np.log((latency + shape / limit) / us))
            if best is None or error.mean() < best[0]:
                best = (error.mean(), exponent, half / MIB, limit, error.max())
    rows = sum(len(table[0]) for table in tables)
    print(f"  {name:44s} rows {rows:3d}  limit {best[3]:6.1f} GB/s  half {best[2]:7.2f} MiB  "
          f"exponent {best[1]:.2f}  mean error {best[0]*100:.1f} %  largest {best[4]*100:.1f} %")


def collective_sections(data):
    def public(gpu, ranks, least, scale=1.0):
        rows = [r for r in data.public if r["category"] == "nccl" and r["gpu"].startswith(gpu) and
                r["n_gpus"] == str(ranks) and r["time_us"]]
        pairs = [(float(r["shape_or_size"].split()[0]), float(r["time_us"])) for r in rows]
        size, us = np.array([pair for pair in pairs if pair[0] >= least * MIB]).T
        return size, us, 2 * (ranks - 1) / ranks, scale

    def micro(op, factor):
        rows = [r for r in data.micro if r["kind"] == "nccl" and r["op"] == op]
        size, us = columns(rows, "bytes", "us")
        floor = np.median(us[size <= 2 * MIB])
        print(f"  host floor of {op}: {floor:.1f} us")
        return size[size >= 16 * MIB], us[size >= 16 * MIB], factor, 1.0

    def log(name, factor, least, column=3):
        rows = []
        with open(f"{data.folder}/files/nccl_tests_logs/sb_a100x8_{name}.log") as lines:
            for words in map(str.split, lines):
                if len(words) > 8 and words[0].isdigit() and int(words[0]) >= least * MIB:
                    rows.append((float(words[0]), float(words[column])))
        size, us = np.array(rows).T
        return size, us, factor, 1.0

    def single(mib, busbw, factor, scale=1.0):
        size = np.array(mib, float) * MIB
        return size, size * factor / np.array(busbw, float) / 1e3, factor, scale

    print("Collectives")
    fit_ramp("A100 ring, 3 to 8 GPUs", [public("A100 (8", n, 8) for n in range(3, 9)])
    fit_ramp("A100 ring, 2 GPUs", [public("A100 (8", 2, 8)])
    fit_ramp("8x A100 all-gather", [log("allgather", 7 / 8, 4)])
    fit_ramp("8x A100 broadcast", [log("broadcast", 1, 8, 4)])
    fit_ramp("8x A100 all-to-all", [log("alltoall", 7 / 8, 4)])
    for n in (2, 3, 4, 5, 6, 7, 8):
        fit_ramp(f"V100 cube mesh, {n} GPUs", [public("V100 (8", n, 4)], exponents=[1.0])
    fit_ramp("H200 ring, 2 GPUs and 8x at 16 GiB",
             [micro("all_reduce", 1), single([16384], [367.6], 1.75)])
    fit_ramp("H200 gather and scatter, 2 GPUs and 8x",
             [micro("all_gather", 0.5), micro("reduce_scatter", 0.5),
              single([16384], [361.4], 0.875, 1 / 7)])
    fit_ramp("H200 all-to-all, 2 GPUs", [micro("all_to_all", 0.5)])
    fit_ramp("H200 exchange, 2 GPUs", [micro("sendrecv", 1)])
    fit_ramp("H200 broadcast and one-way send", [micro("broadcast", 1), micro("p2p_oneway", 1)])
    fit_ramp("8x H200 multicast, half size of 8 ranks",
             [single([4, 16, 64, 256, 1024, 16384], [107, 220, 347, 436, 464, 482], 1.75)], 12)
    fit_ramp("GB200 multicast, 72 and 144, half per rank",
             [public("GB200", 72, 1, 72), public("GB200", 144, 1, 144)], 12)
    fit_ramp("2x p4de", [public("A100-80GB p4de", 16, 16)], 100)
    fit_ramp("2x p5", [public("H100 p5", 16, 16)], 70)
    fit_ramp("8 nodes of H100 with SHARP", [public("H100 SXM (8x", 64, 1)])
    fit_ramp("4 nodes of B200", [single([16, 64, 256, 1024, 16384], [64, 157, 229, 362, 382],
                                        62 / 32)], 84)


def main():
    data = Data(sys.argv[1])
    sections = sys.argv[2:] or ["gemm", "attention", "collectives"]
    for section in sections:
        {"gemm": gemm_sections, "attention": attention_sections,
         "collectives": collective_sections}[section](data)


if __name__ == "__main__":
    main()

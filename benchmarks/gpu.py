"""What was never run on a GPU, checked by one command within ten minutes: a table, and a JSON file.

Usage: python benchmarks/gpu.py [--file gpu.json]

Checks the lease of a GPU, batches that are halved when memory is full and that grow with free
memory, float32 products without TF32, MM-SHAP of a network of the shape of CLIP ViT-B/32 against
the CPU's values, 4 bits, and the speed of CC-SHAP's coalitions with a network of 7 billion random
weights. Without a GPU, the same checks run on a simulated device with small networks, and the table
says so.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cc_shap
import mm_shap
import numpy as np
import torch
import transformers
from PIL import Image

from waltz.attribution.mm_shap import attribute_texts
from waltz.core.ambient_state import use_usual_settings
from waltz.core.jobs import devices
from waltz.core.jobs.devices import Device, lease_device
from waltz.model_registry import ModelSpec
from waltz.models.batch_size import BatchSize
from waltz.models.batches import compute_in_halves
from waltz.models.decoders.coalitions import (
    DecoderCoalitions,
    Game,
    build_equations_players,
)
from waltz.models.decoders.language_model import build_loading_arguments
from waltz.models.encoders import load_encoder

SIMULATED = "simulated devices; never run on a GPU"
SEVEN_BILLION = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
"""Sizes of the language model on a GPU, and on a simulated device."""
LOCK = "import filelock, sys; filelock.FileLock(sys.argv[1]).acquire(timeout=0)"
"""Program that fails while another process has the lock of a GPU."""


@dataclass(frozen=True)
class Row:
    """Row of the table: a check, its result in words, `ok`, `failed` or `not checked`, and seconds."""

    check: str
    result: str
    state: str
    seconds: float


def judge(passed: bool, result: str) -> tuple[str, str]:
    """Return a result with its state."""
    return result, "ok" if passed else "failed"


@contextmanager
def simulate_gpu() -> Iterator[None]:
    """Let torch count one GPU, whose lock is in a temporary folder."""
    with (
        TemporaryDirectory() as folder,
        patch.object(devices, "LOCK_FOLDER", Path(folder) / "locks"),
        patch.object(torch.cuda, "device_count", lambda: 1),
        patch.dict(os.environ, {devices.VISIBLE: "0"}),
    ):
        yield


def check_lease(device: str) -> tuple[str, str]:
    """Check that no other process gets the leased GPU."""
    with lease_device(1, torch.get_num_threads()) as leased:
        lock = devices.LOCK_FOLDER / f"{os.environ[devices.VISIBLE]}.lock"
        during = subprocess.run(
            [sys.executable, "-c", LOCK, str(lock)], stderr=subprocess.DEVNULL
        )
    after = subprocess.run(
        [sys.executable, "-c", LOCK, str(lock)], stderr=subprocess.DEVNULL
    )
    kept_apart = during.returncode != 0 and after.returncode == 0
    return judge(kept_apart, f"{leased.reason}; another process waits for it")


def check_halving(device: str) -> tuple[str, str]:
    """Check that eight rows, which fill the memory one and a half times, are computed in parts."""
    sizes: list[int] = []

    def compute(batch: list[int]) -> np.ndarray:
        if device == "cpu":
            if len(batch) > 2:
                raise torch.OutOfMemoryError("simulated")
        else:
            _, total = torch.cuda.mem_get_info()
            torch.empty(len(batch), 3 * total // 16, dtype=torch.uint8, device=device)
        sizes.append(len(batch))
        return np.array(batch)

    values = compute_in_halves(compute, list(range(8)))
    is_halved = len(sizes) > 1 and list(values) == list(range(8))
    return judge(is_halved, f"8 rows in batches of {sizes}")


def check_batch_size(device: str) -> tuple[str, str]:
    """Check that batches grow with the free memory of a GPU, and that none has to be halved."""
    if device == "cpu":
        return "needs a GPU", "not checked"
    _, total = torch.cuda.mem_get_info()
    size, sizes = BatchSize(device, 8), []
    for rows in size.cut(range(2000)):
        with size.measure(len(rows)):
            torch.empty(len(rows), total // 2000, dtype=torch.uint8, device=device)
        sizes.append(len(rows))
    return judge(sum(sizes) == 2000 and max(sizes) > sizes[0], f"2,000 rows in {sizes}")


def check_tf32(device: str) -> tuple[str, str]:
    """Check that products and convolutions of float32 have its digits, as in a job; those of TF32 are
    wrong by about 1e-3.
    """
    left, right = torch.randn(2, 512, 512, generator=torch.Generator().manual_seed(0))
    # A patch embedding: an image of 512 channels and one patch, to 512 channels.
    image, weights = left[None, :, :, None], right[:, :, None, None]
    with use_usual_settings():
        product = (left.to(device) @ right.to(device)).cpu().double()
        convolved = torch.conv2d(image.to(device), weights.to(device)).cpu().double()
    product_error = measure_error(product, left.double() @ right.double())
    exact = torch.conv2d(image.double(), weights.double())
    convolution_error = measure_error(convolved, exact)
    return judge(
        max(product_error, convolution_error) < 1e-5,
        f"relative error of a float32 product {product_error:.1e}, of a convolution {convolution_error:.1e}",
    )


def measure_error(values: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest deviation from exact values, relative to the largest of these."""
    return float((values - exact).abs().max() / exact.abs().max())


def compute_shares(
    folder: Path, device: str, dtype: str, permutations: int
) -> tuple[np.ndarray, float]:
    """Return the Shapley values of a caption and its foil, and evaluations per second."""
    spec = ModelSpec("clip", "clip", str(folder), "local", dtype)
    encoder = load_encoder(spec, Device(device, torch.get_num_threads(), "benchmark"))
    settings = mm_shap.settings(permutations, players=40)
    begin = time.perf_counter()
    attributions = attribute_texts(
        encoder, mm_shap.picture(), mm_shap.ITEMS["kitchen"], settings
    )
    seconds = time.perf_counter() - begin
    values = np.concatenate([one.estimate.phi[:, 0] for one in attributions])
    return values, sum(one.estimate.requested for one in attributions) / seconds


def check_mm_shap(device: str) -> tuple[str, str]:
    """Compare values in float32, TF32 and bfloat16 with those of the CPU, with the same permutations."""
    permutations = 1 if device == "cpu" else 10
    with TemporaryDirectory() as temporary:
        folder = mm_shap.SCENES / "clip"
        if device != "cpu":
            folder = Path(temporary)
            mm_shap.build("clip", folder)
        expected, _ = compute_shares(folder, "cpu", "float32", permutations)
        full, full_speed = compute_shares(folder, device, "float32", permutations)
        short, short_speed = compute_shares(folder, device, "tf32", permutations)
        half, half_speed = compute_shares(folder, device, "bfloat16", permutations)
    full_error, short_error, half_error = (
        np.abs(values - expected).max() / np.abs(expected).max()
        for values in (full, short, half)
    )
    return judge(
        full_error < 1e-3 and short_error < 0.05 and half_error < 0.3,
        f"float32: {full_speed:.0f} coalitions/s, {full_error:.1e} from the CPU's values;"
        f" TF32: {short_speed:.0f} coalitions/s, {short_error:.1e};"
        f" bfloat16: {half_speed:.0f} coalitions/s, {half_error:.1e}",
    )


def check_four_bits(device: str) -> tuple[str, str]:
    """Compare a small language model in 4 bits with its weights in float32."""
    if device == "cpu" or importlib.util.find_spec("bitsandbytes") is None:
        return "needs a GPU and bitsandbytes", "not checked"
    ids = torch.arange(40, device=device)[None]
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=512, intermediate_size=1024, num_hidden_layers=4
        )
    )
    with TemporaryDirectory() as folder, torch.inference_mode():
        network.save_pretrained(folder)
        spec = ModelSpec("llama", weights=folder, dtype="bfloat16", four_bit=True)
        quantized = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, **build_loading_arguments(spec)
        )
        expected = network.to(device)(ids).logits
        error = float((quantized(ids).logits - expected).std() / expected.std())
    return judge(error < 0.5, f"logits differ by {error:.2f} of their spread")


def read_utilization() -> str:
    """Return how busy nvidia-smi finds the GPU now."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=True)
    return answer.stdout.partition("\n")[0]


@torch.inference_mode()
def check_cc_shap(device: str) -> tuple[str, str]:
    """Measure coalitions per second of an explanation, and how busy the GPU is meanwhile."""
    is_simulated = device == "cpu"
    sizes = SMALL if is_simulated else SEVEN_BILLION
    dtype = torch.float32 if is_simulated else torch.bfloat16
    model = cc_shap.decoder(sizes, device, dtype)
    parameters = sum(weights.numel() for weights in model.network.model.parameters())
    prompt = model.build_prompt("<image> " + " ".join(f"w{4 + n}" for n in range(40)))
    noise = Image.effect_noise((cc_shap.SIDE, cc_shap.SIDE), 80).convert("RGB")
    picture = model.prepare_image(noise)
    players = build_equations_players(model, prompt, picture)
    game = Game(players, tuple(range(100, 120)), "log-probability")
    count = 8 if is_simulated else 200
    masks = np.random.default_rng(0).random((count, len(players))) < 0.5
    table = DecoderCoalitions(model, picture, [game])
    begin = time.perf_counter()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(table.values, [masks])
        busy = "not measured"
        while not is_simulated and not running.done():
            busy = read_utilization()
            time.sleep(1)
        values = running.result()[0]
    speed = count / (time.perf_counter() - begin)
    return judge(
        bool(np.isfinite(values).all()),
        f"{parameters / 1e9:.2g} billion parameters, {speed:.1f} coalitions/s, utilization {busy}",
    )


CHECKS: dict[str, Callable[[str], tuple[str, str]]] = {
    "lease": check_lease,
    "halving of batches": check_halving,
    "batches from free memory": check_batch_size,
    "TF32": check_tf32,
    "MM-SHAP": check_mm_shap,
    "4 bits": check_four_bits,
    "CC-SHAP": check_cc_shap,
}


def run_checks(device: str) -> list[Row]:
    """Run all checks; one that raises an error has failed."""
    rows = []
    for name, check in CHECKS.items():
        begin = time.perf_counter()
        try:
            result, state = check(device)
        except Exception as error:  # the other checks still count
            result, state = f"{type(error).__name__}: {error}", "failed"
        rows.append(Row(name, result, state, time.perf_counter() - begin))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Print the table and write the file; return 1 if a check failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=Path("gpu.json"))
    options = parser.parse_args(arguments)
    if torch.cuda.is_available():
        card, rows = torch.cuda.get_device_name(0), run_checks("cuda:0")
    else:
        with simulate_gpu():
            card, rows = SIMULATED, run_checks("cpu")
    print(f"GPU: {card}\n\n| check | result | state | seconds |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.check} | {row.result} | {row.state} | {row.seconds:.1f} |")
    record = {"gpu": card, "checks": [asdict(row) for row in rows]}
    options.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(any(row.state == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())

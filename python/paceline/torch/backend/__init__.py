"""The backend "paceline" of torch.distributed, and the hook of DistributedDataParallel."""

"""What attach() is made of: any model and optimizer of PyTorch in a job."""

"""The controller that gives a plain cluster the PyTorchTrainingJob resource."""

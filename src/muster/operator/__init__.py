"""The controller that gives a plain cluster the PyTorchTrainingJob resource.

It is no kopf operator, though kopf is what one would reach for in Python, for three reasons:

1. The status is the ledger (see `muster.operator.reconcile`): a restart is written down before it is done,
   and only over the version of the job that it was decided from, so that it is counted once whoever dies
   when. kopf's patches carry no version; the one write that matters would have to go past it.
2. kopf remembers what it has handled in annotations, and holds objects with finalizers: more writes, the
   right to change users' jobs, and jobs that cannot be deleted while no operator runs.
3. What has to be decided is one pure function of a job and its pods. What is left around it, watches that
   outlive a restart of the API server and a client of its own, the Kubernetes engine has already.
"""

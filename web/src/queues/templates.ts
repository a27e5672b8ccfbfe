/** Configs to start a queue from. `{{name}}` is for the launch to choose, `${name}` is filled by Muster. */
export interface Template {
  readonly resource: string;
  readonly text: string;
}

const PROCESS = `# Programs on the agent's own machine.
resources: # of each node
  cpus: "{{cpus}}"
  memory: "{{memory}}"
  gpus: "{{gpus}}"
env:
  OMP_NUM_THREADS: "1"
stop_grace: 30 # seconds between SIGTERM and SIGKILL
`;

const JOB = `# A batch/v1 Job. Muster fills in its name, the command and what is left out.
spec:
  template:
    spec:
      containers:
        - image: \${image_uri}
          resources:
            requests:
              cpu: "{{cpu}}"
              memory: "{{memory}}"
`;

const GPU = `# As many GPUs of one node as a launch asks for.
spec:
  template:
    spec:
      containers:
        - image: \${image_uri}
          resources:
            limits:
              cpu: "{{cpu}}"
              memory: "{{memory}}"
              nvidia.com/gpu: "{{gpus}}"
      restartPolicy: Never
  backoffLimit: 0
`;

const NFS = `# With a cache that all runs share: a volume claim on an NFS server, made once in the cluster.
spec:
  template:
    spec:
      containers:
        - image: \${image_uri}
          resources:
            limits:
              cpu: 4
              memory: "{{memory}}"
              nvidia.com/gpu: "{{gpus}}"
          volumeMounts:
            - name: nfs-storage
              mountPath: /home/user/.cache
      restartPolicy: Never
      volumes:
        - name: nfs-storage
          persistentVolumeClaim:
            claimName: nfs-pvc
  backoffLimit: 0
`;

const TRAINING = `# Trainings on one node or several: the launch gives the shape, and Muster writes the objects.
kind: Job
template:
  spec:
    containers:
      - resources:
          limits:
            cpu: 4
            memory: "{{memory}}"
            nvidia.com/gpu: "{{gpus}}"
`;

const VOLCANO = `# Pods that start together, or not at all: Volcano's scheduler and its pytorch plugin.
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train-\${run_id}
spec:
  schedulerName: volcano
  minAvailable: 2
  plugins:
    pytorch:
      - --master=master
      - --worker=worker
      - --port=23456
  tasks:
    - name: master
      replicas: 1
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        spec:
          containers:
            - name: master
              image: \${image_uri}
              resources:
                limits:
                  nvidia.com/gpu: "{{gpus}}"
          restartPolicy: OnFailure
    - name: worker
      replicas: "{{workers}}"
      template:
        spec:
          containers:
            - name: worker
              image: \${image_uri}
              resources:
                limits:
                  nvidia.com/gpu: "{{gpus}}"
          restartPolicy: OnFailure
`;

const PYTORCHJOB = `# One master and some workers, started by Kubeflow's training operator.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: train-\${run_id}
spec:
  runPolicy:
    ttlSecondsAfterFinished: 600
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: \${image_uri}
              resources:
                limits:
                  nvidia.com/gpu: "{{gpus}}"
    Worker:
      replicas: "{{workers}}"
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: \${image_uri}
              resources:
                limits:
                  nvidia.com/gpu: "{{gpus}}"
`;

const TRAININGJOB = `# T9k's training resource: torchrun on each node, shared memory from the node's own.
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: train-\${run_id}
spec:
  torchrunConfig:
    enabled: true
    maxRestarts: 3
    procPerNode: gpu
  replicaSpecs:
    - type: node
      replicas: "{{nodes}}"
      restartPolicy: ExitCode
      template:
        spec:
          containers:
            - name: pytorch
              image: \${image_uri}
              resources:
                limits:
                  memory: "{{memory}}"
                  nvidia.com/gpu: "{{gpus}}"
              volumeMounts:
                - name: dshm
                  mountPath: /dev/shm
          volumes:
            - name: dshm
              emptyDir:
                medium: Memory
`;

/** By their names in the messages. */
export const TEMPLATES = {
  blank: { resource: "process", text: "{}\n" },
  process: { resource: "process", text: PROCESS },
  job: { resource: "kubernetes", text: JOB },
  gpu: { resource: "kubernetes", text: GPU },
  nfs: { resource: "kubernetes", text: NFS },
  training: { resource: "kubernetes", text: TRAINING },
  volcano: { resource: "kubernetes", text: VOLCANO },
  pytorchjob: { resource: "kubernetes", text: PYTORCHJOB },
  trainingjob: { resource: "kubernetes", text: TRAININGJOB },
} as const satisfies Record<string, Template>;

export type TemplateName = keyof typeof TEMPLATES;

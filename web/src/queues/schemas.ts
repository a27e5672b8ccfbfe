/** What may stand in a queue's config, for completion. The server checks; this only helps to type. */
import type { Schema } from "../editor/schema";
import { m } from "../messages";

const help = m.configHelp;
const IMAGE = "$".concat("{image_uri}"); // the macro for the image of the run

const text: Schema = {};
const named = (...keys: string[]): Schema => ({
  properties: Object.fromEntries(keys.map((key) => [key, text])),
});

const process: Schema = {
  properties: {
    resources: {
      description: help.resources,
      properties: {
        cpus: { description: help.cpus },
        memory: { description: help.memory },
        gpus: { description: help.gpus },
      },
    },
    env: { description: help.env, properties: {}, rest: text },
    workdir: { description: help.workdir },
    stop_grace: { description: help.stopGrace },
    python: { description: help.python },
  },
};

const amounts: Schema = {
  properties: {
    cpu: { description: help.cpu },
    memory: { description: help.amount },
    "nvidia.com/gpu": { description: help.gpus },
    "ephemeral-storage": { description: help.disk },
  },
  rest: text,
};
const env: Schema = {
  items: {
    properties: {
      name: text,
      value: text,
      valueFrom: {
        properties: {
          secretKeyRef: named("name", "key"),
          configMapKeyRef: named("name", "key"),
          fieldRef: named("fieldPath"),
        },
      },
    },
  },
};
const securityContext: Schema = named(
  "runAsUser",
  "runAsGroup",
  "runAsNonRoot",
  "fsGroup",
  "allowPrivilegeEscalation",
  "readOnlyRootFilesystem",
);
const container: Schema = {
  properties: {
    name: { description: help.filled },
    image: { description: help.image, values: [IMAGE] },
    imagePullPolicy: { values: ["IfNotPresent", "Always", "Never"] },
    command: { description: help.command, items: text },
    args: { items: text },
    workingDir: text,
    env,
    resources: {
      properties: {
        limits: { ...amounts, description: help.limits },
        requests: { ...amounts, description: help.requests },
      },
    },
    volumeMounts: { items: named("name", "mountPath", "subPath", "readOnly") },
    securityContext,
  },
};
const podSpec: Schema = {
  properties: {
    containers: { description: help.containers, items: container },
    initContainers: { items: container },
    restartPolicy: { values: ["Never", "OnFailure"] },
    volumes: {
      items: {
        properties: {
          name: text,
          persistentVolumeClaim: named("claimName", "readOnly"),
          emptyDir: { properties: { medium: { values: ["Memory"] }, sizeLimit: text } },
          configMap: named("name"),
          secret: named("secretName"),
          nfs: named("server", "path", "readOnly"),
          hostPath: named("path", "type"),
        },
      },
    },
    nodeSelector: { properties: {}, rest: text },
    tolerations: { items: named("key", "operator", "value", "effect", "tolerationSeconds") },
    affinity: { properties: { nodeAffinity: {}, podAffinity: {}, podAntiAffinity: {} } },
    serviceAccountName: text,
    imagePullSecrets: { items: named("name") },
    priorityClassName: text,
    runtimeClassName: text,
    schedulerName: text,
    hostNetwork: text,
    shareProcessNamespace: text,
    terminationGracePeriodSeconds: text,
    securityContext,
  },
};
const metadata: Schema = {
  properties: {
    name: { description: help.filled },
    namespace: { description: help.namespace },
    labels: { properties: { "kueue.x-k8s.io/queue-name": text }, rest: text },
    annotations: { properties: {}, rest: text },
  },
};
const template: Schema = { description: help.pods, properties: { metadata, spec: podSpec } };
const replicaSpec: Schema = {
  properties: {
    type: text,
    replicas: { description: help.replicas },
    restartPolicy: { values: ["Never", "OnFailure", "Always", "ExitCode"] },
    template,
  },
};
const spec: Schema = {
  properties: {
    template,
    backoffLimit: { description: help.backoffLimit },
    completions: text,
    parallelism: text,
    completionMode: { values: ["Indexed", "NonIndexed"] },
    activeDeadlineSeconds: text,
    ttlSecondsAfterFinished: text,
    suspend: text,
    // Volcano
    schedulerName: text,
    minAvailable: { description: help.minAvailable },
    queue: { description: help.volcanoQueue },
    plugins: { properties: { pytorch: { items: text }, svc: { items: text }, env: { items: text } } },
    tasks: {
      description: help.tasks,
      items: {
        properties: {
          name: text,
          replicas: text,
          minAvailable: text,
          policies: { items: named("event", "action") },
          template,
        },
      },
    },
    // Kubeflow
    pytorchReplicaSpecs: {
      description: help.pytorchReplicas,
      properties: { Master: replicaSpec, Worker: replicaSpec },
    },
    runPolicy: named("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"),
    // T9k
    torchrunConfig: {
      description: help.torchrun,
      ...named("enabled", "maxRestarts", "procPerNode", "rdzvBackend", "extraOptions"),
    },
    replicaSpecs: { description: help.replicaSpecs, items: replicaSpec },
  },
};
const object: Schema = {
  properties: {
    apiVersion: {
      values: [
        "batch/v1",
        "batch.volcano.sh/v1alpha1",
        "kubeflow.org/v1",
        "batch.tensorstack.dev/v1beta1",
        "v1",
      ],
    },
    kind: {
      description: help.kind,
      values: ["Job", "PyTorchJob", "PyTorchTrainingJob", "JobSet", "TrainJob", "RayJob", "List"],
    },
    metadata,
    spec,
    template: { ...template, description: help.template },
    items: { description: help.items, items: { properties: {} } },
  },
};

const SCHEMAS: Record<string, Schema> = { process, kubernetes: object };

export const schemaFor = (resource: string): Schema => SCHEMAS[resource] ?? {};

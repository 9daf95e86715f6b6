import type { Pod, PodSpec } from '../../api/core.ts';
import type { Image, Iso } from '../../api/image.ts';
import { annotations, apiVersion, labels, objectNames } from '../../api/meta.ts';
import { formatQuantity } from '../../api/quantity.ts';
import { workerEnvironment, workerPaths, type WorkSpec } from '../../api/worker.ts';
import { ticketSecret, workerPodName } from './names.ts';
import type { DiskKind } from './repositorypath.ts';
import { type ImageSettings, workerPullsWith } from './settings.ts';
import type { Submitted } from '../../api/object.ts';

export const workerContainer = 'worker';
/** The worker with its buffers, and qemu-img beside it. */
const memory = { request: 192 * 2 ** 20, limit: 1024 * 2 ** 20 } as const;
/** Pieces of a disk pass through quickly; collector and allocator are not to let them pile up. */
export const workerProcess = {
  NODE_OPTIONS: '--max-old-space-size=96 --max-semi-space-size=1',
  MALLOC_ARENA_MAX: '1',
} as const;
/** A worker that hangs is ended by the kubelet and made anew. */
const deadlineSeconds = 24 * 3600;

export interface WorkerPodInput {
  readonly disk: Image | Iso;
  readonly kind: DiskKind;
  readonly id: string;
  readonly spec: WorkSpec;
  readonly settings: ImageSettings;
}

/**
 * The pod of one piece of work. It passes Pod Security `restricted`, has no ServiceAccount's token, and the namespace's
 * pull Secret as its only credential.
 */
export function buildWorkerPod(input: WorkerPodInput): Submitted<Pod> {
  const { disk, kind, id, settings } = input;
  const { name, namespace, uid } = disk.metadata;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: workerPodName(id),
      namespace,
      labels: {
        [labels.image]: name,
        [labels.name]: 'svc3-worker',
        [labels.instance]: name,
        [labels.component]: 'worker',
        [labels.partOf]: 'svc3',
        [labels.managedBy]: 'svc3',
      },
      annotations: { [annotations.pullsWith]: workerPullsWith(settings) },
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: podSpec(input),
  };
}

function podSpec({ id, spec, settings }: WorkerPodInput): PodSpec {
  const hasTicket = spec.source.type === 'export';
  const { workerPullSecret } = settings;
  return {
    activeDeadlineSeconds: deadlineSeconds,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    imagePullSecrets: [
      { name: objectNames.pullSecret },
      ...(workerPullSecret === undefined ? [] : [{ name: workerPullSecret }]),
    ],
    // The image is a Linux one, and no taint need keep pods from other nodes.
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 10,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65_532,
      runAsGroup: 65_532,
      fsGroup: 65_532,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: workerContainer,
        image: settings.workerImage,
        imagePullPolicy: settings.workerImagePullPolicy,
        command: ['node', '/app/worker.js'],
        env: [
          { name: workerEnvironment.work, value: JSON.stringify(spec) },
          ...(hasTicket
            ? [
                {
                  name: workerEnvironment.ticket,
                  valueFrom: { secretKeyRef: { name: ticketSecret, key: id } },
                },
              ]
            : []),
          ...Object.entries(workerProcess).map(([name, value]) => ({ name, value })),
        ],
        resources: {
          requests: { cpu: '100m', memory: formatQuantity(memory.request) },
          limits: { memory: formatQuantity(memory.limit) },
        },
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
          readOnlyRootFilesystem: true,
        },
        terminationMessagePolicy: 'FallbackToLogsOnError',
        volumeMounts: [
          { name: 'scratch', mountPath: workerPaths.scratch },
          { name: 'registry', mountPath: '/etc/svc3/registry', readOnly: true },
        ],
      },
    ],
    volumes: [
      { name: 'scratch', emptyDir: { sizeLimit: formatQuantity(volumeBytes(settings)) } },
      {
        name: 'registry',
        secret: { secretName: objectNames.pullSecret, optional: true, defaultMode: 0o440 },
      },
    ],
  };
}

/** A raw disk lies there as it came and packed: that is as much again where its data do not shrink, with the tables of qcow2 (less than a 4096th). */
function volumeBytes({ scratchBytes }: ImageSettings): number {
  return 2 * scratchBytes + Math.ceil(scratchBytes / 1024);
}

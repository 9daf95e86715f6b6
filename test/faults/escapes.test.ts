import { storedMeta } from '../support/storedmeta.ts';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Container, Pod } from '../../src/api/core.ts';
import {
  deployments,
  events,
  namespaces,
  nodes,
  pods,
  roleBindings,
  roles,
  vms,
} from '../../src/api/resources.ts';
import type { Image } from '../../src/api/image.ts';
import { buildWorkerPod } from '../../src/controllers/image/workerpod.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { buildPod } from '../../src/controllers/vm/pod/pod.ts';
import { type Rendered, rendered } from '../integration/chart/helm.ts';
import { install, type Installation, outcome, values } from '../integration/chart/installation.ts';
import { identity } from '../support/identity.ts';
import { aVm, effective, podInput } from '../unit/controllers/vm/builders.ts';
import type { Created } from '../../src/api/object.ts';

/**
 * Editors of `svc3-default` were root on its nodes: the namespace is `privileged` for Pod Security. Each escape is tried
 * without being carried out, as somebody with Kubernetes' role edit, on the policies of the chart.
 */
const namespace = 'svc3-default';
let installation: Installation;
let admin: Installation['admin'];
let editor: KubeClient;
let operator: KubeClient;

const operatorName = 'system:serviceaccount:svc3-system:svc3-operator';
const restrictedOnly = 'only svc3 itself may use what Pod Security "restricted" forbids';
const ownPodsOnly = 'only svc3 itself makes pods';

beforeAll(async () => {
  installation = await install();
  ({ admin } = installation);
  await admin.create(namespaces, {
    metadata: { name: 'strict', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  });
  await admin.create(namespaces, { metadata: { name: 'people' } });
  editor = admin.withToken(
    await identity(admin, 'editor', { namespace: 'people', role: 'edit', in: namespace }),
  );
  // Kubernetes' role edit lets nobody add ephemeral containers; a debugger's role does.
  await admin.create(roles, {
    metadata: { name: 'debugger', namespace },
    rules: [{ apiGroups: [''], resources: ['pods/ephemeralcontainers'], verbs: ['patch', 'update'] }],
  });
  await admin.create(roleBindings, {
    metadata: { name: 'debugger', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'debugger' },
    subjects: [{ kind: 'ServiceAccount', name: 'editor', namespace: 'people' }],
  });
  operator = await installation.identity('svc3-system', 'svc3-operator');
  // Rights and policies take effect a moment after they were written.
  await vi.waitFor(
    async () => {
      expect(await tryPod(aPod({ spec: { hostNetwork: true } }))).toContain(restrictedOnly);
      expect(await tryPod(aPod({ labels: { 'svc3.dev/vm': 'x' } }))).toContain(ownPodsOnly);
    },
    { timeout: 60_000, interval: 200 },
  );
});

afterAll(() => installation?.remove());

const restrictedContainer: Container = {
  name: 'a',
  image: 'b',
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
};

interface Change {
  readonly spec?: object;
  readonly pod?: object;
  readonly container?: object;
  /** Of the container's securityContext. */
  readonly security?: object;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly ownerReferences?: NonNullable<Pod['metadata']['ownerReferences']>;
}

/** A pod that passes `restricted`, but for what is changed. */
function aPod({ spec, pod, container, security, ...metadata }: Change = {}, where = namespace): Created<Pod> {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { generateName: 'escape-', namespace: where, ...metadata },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' }, ...pod },
      containers: [aContainer(container, security)],
      ...spec,
    },
  };
}

function aContainer(container: object = {}, security: object = {}): Container {
  const { securityContext } = restrictedContainer;
  return { ...restrictedContainer, ...container, securityContext: { ...securityContext, ...security } };
}

/** `ok`, or what the server said to the editor. */
function tryPod(pod: Created<Pod>, as: KubeClient = editor): Promise<string> {
  return outcome(as.create(pods, pod, { dryRun: true }));
}

/** The same in a namespace that Pod Security guards. */
function tryStrict(change: Change): Promise<string> {
  return outcome(admin.create(pods, aPod(change, 'strict'), { dryRun: true }));
}

const init = (extra: object): Change => ({
  spec: { initContainers: [{ ...aContainer(), name: 'first', ...extra }] },
});
const volume = (source: object): Change => ({ spec: { volumes: [{ name: 'v', ...source }] } });
const probe = (handler: object): object => ({ ...handler, periodSeconds: 10 });

const escapes: Readonly<Record<string, Change>> = {
  hostNetwork: { spec: { hostNetwork: true } },
  hostPID: { spec: { hostPID: true } },
  hostIPC: { spec: { hostIPC: true } },
  'a hostPath volume': volume({ hostPath: { path: '/' } }),
  'a hostPath volume of /dev/vfio': volume({ hostPath: { path: '/dev/vfio', type: 'Directory' } }),
  'an NFS volume': volume({ nfs: { server: '192.0.2.1', path: '/' } }),
  'an iSCSI volume': volume({
    iscsi: { targetPortal: '192.0.2.1', iqn: 'iqn.2000-01.com.example:a', lun: 0 },
  }),
  'a privileged container': { security: { privileged: true, allowPrivilegeEscalation: true } },
  'a privileged init container': init({ securityContext: { privileged: true } }),
  'an added capability': { security: { capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] } } },
  'the capability of GPU pods': { security: { capabilities: { drop: ['ALL'], add: ['IPC_LOCK'] } } },
  'capabilities that are not dropped': { security: { capabilities: null } },
  'capabilities that an init container does not drop': init({
    securityContext: { allowPrivilegeEscalation: false },
  }),
  'runAsUser 0 of the pod': { pod: { runAsUser: 0 } },
  'runAsUser 0 of a container': { security: { runAsUser: 0 } },
  'runAsUser 0 of an init container': init({
    securityContext: { ...restrictedContainer.securityContext, runAsUser: 0 },
  }),
  'runAsNonRoot that nobody says': { pod: { runAsNonRoot: null } },
  'runAsNonRoot that a container takes back': { security: { runAsNonRoot: false } },
  'runAsNonRoot that the pod takes back': { pod: { runAsNonRoot: false }, security: { runAsNonRoot: true } },
  allowPrivilegeEscalation: { security: { allowPrivilegeEscalation: true } },
  'allowPrivilegeEscalation that nobody denies': { security: { allowPrivilegeEscalation: null } },
  'a host port': { container: { ports: [{ containerPort: 80, hostPort: 20000 }] } },
  'a host port of an init container': init({
    restartPolicy: 'Always',
    ports: [{ containerPort: 80, hostPort: 20000 }],
  }),
  'seccomp Unconfined of the pod': { pod: { seccompProfile: { type: 'Unconfined' } } },
  'seccomp Unconfined of a container': { security: { seccompProfile: { type: 'Unconfined' } } },
  'seccomp that nobody sets': { pod: { seccompProfile: null } },
  'AppArmor Unconfined': { security: { appArmorProfile: { type: 'Unconfined' } } },
  'AppArmor Unconfined of the pod': { pod: { appArmorProfile: { type: 'Unconfined' } } },
  'AppArmor unconfined by annotation': {
    annotations: { 'container.apparmor.security.beta.kubernetes.io/a': 'unconfined' },
  },
  'an SELinux type': { security: { seLinuxOptions: { type: 'spc_t' } } },
  'an SELinux user': { pod: { seLinuxOptions: { user: 'root' } } },
  'procMount Unmasked': { spec: { hostUsers: false }, security: { procMount: 'Unmasked' } },
  'an unsafe sysctl': { pod: { sysctls: [{ name: 'kernel.msgmax', value: '65536' }] } },
  'a Windows host process': {
    spec: { os: { name: 'windows' }, hostNetwork: true },
    pod: {
      seccompProfile: null,
      windowsOptions: { hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM' },
    },
    security: { allowPrivilegeEscalation: null, capabilities: null },
  },
  'a probe of another host': {
    container: { livenessProbe: probe({ httpGet: { host: '192.0.2.1', port: 80 } }) },
  },
  'a TCP probe of another host': {
    container: { readinessProbe: probe({ tcpSocket: { host: '192.0.2.1', port: 80 } }) },
  },
  'a hook on another host': {
    container: { lifecycle: { preStop: { httpGet: { host: '192.0.2.1', port: 80 } } } },
  },
};

describe('an editor of the VM namespace cannot make a pod with', () => {
  test.each(Object.entries(escapes))('%s', async (what, change) => {
    expect(await tryPod(aPod(change))).toContain(restrictedOnly);
    // The policy and Pod Security agree; user namespaces loosen procMount there.
    if (what !== 'procMount Unmasked') expect(await tryStrict(change)).toContain('violates PodSecurity');
  });
});

describe('an editor makes as before a pod', () => {
  test.each<[what: string, change: Change]>([
    ['that is restricted', {}],
    [
      'that says for each container what the pod does not',
      {
        pod: { runAsNonRoot: null, seccompProfile: null },
        security: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      },
    ],
    [
      'with a capability for low ports',
      { security: { capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] } } },
    ],
    [
      'with volumes of its own',
      {
        spec: {
          volumes: [
            { name: 'a', emptyDir: {} },
            { name: 'b', configMap: { name: 'x' } },
            { name: 'c', secret: { secretName: 'x' } },
            { name: 'd', persistentVolumeClaim: { claimName: 'x' } },
            { name: 'e', projected: { sources: [] } },
            { name: 'f', downwardAPI: {} },
            { name: 'g', image: { reference: 'r.example.com/x' } },
          ],
        },
      },
    ],
    [
      'with safe sysctls, ports, probes and hooks',
      {
        pod: { sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }], runAsUser: 1000 },
        container: {
          ports: [{ containerPort: 80 }],
          livenessProbe: probe({ httpGet: { port: 80 } }),
          startupProbe: probe({ exec: { command: ['true'] } }),
          lifecycle: { postStart: { exec: { command: ['true'] } } },
        },
      },
    ],
    [
      'with profiles that are no weaker',
      {
        pod: { appArmorProfile: { type: 'RuntimeDefault' }, seLinuxOptions: { type: 'container_t' } },
        security: { seccompProfile: { type: 'Localhost', localhostProfile: 'p.json' } },
      },
    ],
    [
      'with an init container and a sidecar',
      {
        spec: {
          initContainers: [
            { ...aContainer(), name: 'first' },
            { ...aContainer(), name: 'beside', restartPolicy: 'Always' },
          ],
        },
      },
    ],
    ['that looks a little like ours', { labels: { 'app.kubernetes.io/part-of': 'svc3', app: 'vm' } }],
  ])('%s', async (_, change) => {
    expect(await tryPod(aPod(change))).toBe('ok');
    expect(await tryStrict(change)).toBe('ok');
  });
});

describe('everywhere only svc3 makes a pod with', () => {
  const owner = (kind: string) => [
    { apiVersion: 'svc3.dev/v1', kind, name: 'x', uid: 'u', controller: true },
  ];
  const worker = { 'app.kubernetes.io/part-of': 'svc3', 'app.kubernetes.io/component': 'worker' };
  test.each<[what: string, change: Change]>([
    ['the label of a VM', { labels: { 'svc3.dev/vm': 'x' } }],
    ['any other label svc3.dev/*', { labels: { 'svc3.dev/anything': 'x' } }],
    ['the labels of a worker', { labels: worker }],
    ['the component of a VM', { labels: { ...worker, 'app.kubernetes.io/component': 'vm' } }],
    ['a VM as its owner', { ownerReferences: owner('VM') }],
    ['an Image as its owner', { ownerReferences: owner('Image') }],
    ['/dev/kvm', { container: { resources: { limits: { 'svc3.dev/kvm': '1' } } } }],
    ['the GPUs of a node', { container: { resources: { limits: { 'svc3.dev/gpu-passthrough': '1' } } } }],
    [
      'the GPUs of a node for an init container',
      init({ resources: { limits: { 'svc3.dev/gpu-passthrough': '1' } } }),
    ],
  ])('%s', async (_, change) => {
    expect(await tryPod(aPod(change))).toContain(ownPodsOnly);
    expect(await tryPod(aPod(change, 'strict'), admin)).toContain(ownPodsOnly);
  });
});

test('the pods of a Deployment are held as well', async () => {
  const labels = { app: 'escape' };
  const { spec } = aPod({ spec: { hostPID: true } });
  await editor.create(deployments, {
    metadata: { name: 'escape', namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  });
  const said = async () => {
    const { items } = await admin.list(events, { namespace });
    return items.filter(({ reason }) => reason === 'FailedCreate').map(({ note = '' }) => note);
  };
  await expect
    .poll(said)
    .toContainEqual(expect.stringMatching(/'svc3-restricted-pods'.* denied request: only svc3 itself/s));
  expect((await admin.list(pods, { namespace, labelSelector: 'app=escape' })).items).toEqual([]);
});

describe("what the operator makes passes, and is nobody else's to change", () => {
  const vm = aVm({ metadata: { namespace } });
  const gpu = { ...effective, gpuPassthrough: 'Enabled' as const, vncConsole: 'Disabled' as const };
  const ports = [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' as const }];
  const pinned = { node: 'n1', ports: { ssh: 8822 }, requestsEphemeralStorage: true } as const;
  const image: Image = {
    metadata: storedMeta({ name: 'saved', namespace, uid: 'image-uid' }),
    spec: { source: { vm: { name: 'web', mode: 'Save' } } },
  };
  const worker = () =>
    buildWorkerPod({
      disk: image,
      kind: 'Image',
      id: 'abc',
      spec: { source: { type: 'export' } } as never,
      settings: {
        workerImage: 'svc3',
        workerImagePullPolicy: 'IfNotPresent',
        scratchBytes: 2 ** 30,
      } as never,
    });

  test.each<[what: string, pod: () => Created<Pod>]>([
    [
      'a VM with host ports',
      () =>
        buildPod(
          podInput({ vm, effective: { ...effective, ports }, placement: { ...pinned, accelerator: 'tcg' } }),
        ),
    ],
    [
      'a VM with /dev/kvm',
      () => buildPod(podInput({ vm, kvmGroups: [104], placement: { ...pinned, accelerator: 'kvm' } })),
    ],
    [
      'a VM with GPUs',
      () => buildPod(podInput({ vm, effective: gpu, placement: { ...pinned, accelerator: 'kvm' } })),
    ],
    ['a worker', worker],
  ])('%s', async (_, pod) => {
    expect(await tryPod(pod(), operator)).toBe('ok');
    // By either policy: the server asks them in no order.
    expect(await tryPod(pod(), editor)).toContain('only svc3 itself');
  });

  test('the pod of helm test and those of operator and api pass where they are', async () => {
    const objects: Rendered[] = await rendered(...values);
    for (const name of ['svc3-boot-test', 'svc3-operator', 'svc3-api']) {
      const source = objects.find(
        ({ kind, metadata }) => metadata.name === name && ['Deployment', 'Pod'].includes(kind),
      );
      const holder = (source?.kind === 'Pod' ? source : source?.spec?.['template']) as unknown as Pod;
      const { labels } = holder.metadata;
      const pod = {
        metadata: { name: `${name}-x`, namespace: 'svc3-system', labels },
        spec: { ...holder.spec, serviceAccountName: 'default' },
      };
      expect(await tryPod(pod as Pod, admin)).toBe('ok');
    }
  });

  describe('once it is there', () => {
    const key = { name: 'svc3-vm-gamer', namespace };
    beforeAll(async () => {
      const made = await admin.create(vms, {
        metadata: { name: 'gamer', namespace },
        spec: { image: 'r.example.com/x', powerState: 'Running' },
      });
      const pod = buildPod(podInput({ vm: { ...vm, metadata: made.metadata }, effective: gpu }));
      await operator.create(pods, pod);
    });

    const patch = (body: object, as = editor): Promise<string> =>
      outcome(as.patch(pods, key, { type: 'strategic', body }, { dryRun: true }));

    test.each<[what: string, body: object, message: string]>([
      ['another image', { spec: { containers: [{ name: 'runner', image: 'evil' }] } }, 'only svc3 itself'],
      ['an end of its time', { spec: { activeDeadlineSeconds: 1 } }, 'only svc3 itself'],
      [
        'another label svc3.dev/*',
        { metadata: { labels: { 'svc3.dev/vm': 'other' } } },
        'only svc3 itself changes labels',
      ],
      [
        'no label of ours',
        { metadata: { labels: { 'svc3.dev/vm': null } } },
        'only svc3 itself changes labels',
      ],
      [
        'other control keys',
        { metadata: { annotations: { 'svc3.dev/control-keys': 'mine' } } },
        'only svc3 itself changes labels',
      ],
      [
        'other settings',
        { metadata: { annotations: { 'svc3.dev/effective': '{}' } } },
        'only svc3 itself changes labels',
      ],
      ['no owner', { metadata: { ownerReferences: null } }, 'only svc3 itself makes an object'],
      ['a label of their own', { metadata: { labels: { mine: 'x' } } }, 'ok'],
      ['an annotation of their own', { metadata: { annotations: { mine: 'x' } } }, 'ok'],
      ['a finalizer less', { metadata: { finalizers: null } }, 'ok'],
    ])('%s by an editor: %s', async (_, body, message) => {
      expect(await patch(body)).toContain(message);
    });

    test('the operator renews the control keys', async () => {
      const body = { metadata: { annotations: { 'svc3.dev/control-keys': 'new' } } };
      expect(await patch(body, operator)).toBe('ok');
    });

    test('the garbage collector may take away the owner', async () => {
      const collector = await installation.identity('kube-system', 'generic-garbage-collector');
      expect(await patch({ metadata: { ownerReferences: null } }, collector)).toBe('ok');
    });

    const debug = (extra: object): Promise<string> =>
      outcome(
        editor.patch(
          pods,
          key,
          {
            type: 'strategic',
            body: { spec: { ephemeralContainers: [{ name: 'debug', image: 'b', ...extra }] } },
          },
          { dryRun: true, subresource: 'ephemeralcontainers' },
        ),
      );
    const nobody = { runAsNonRoot: true, runAsUser: 1000 };
    const { securityContext } = restrictedContainer;

    test.each<[what: string, extra: object, message: string]>([
      ['privileged', { securityContext: { privileged: true } }, restrictedOnly],
      ['without a word', {}, restrictedOnly],
      ['as root, like the pod', { securityContext }, restrictedOnly],
      [
        'root and says otherwise',
        { securityContext: { ...securityContext, runAsNonRoot: true } },
        restrictedOnly,
      ],
      [
        'with a capability',
        {
          securityContext: {
            ...securityContext,
            ...nobody,
            capabilities: { drop: ['ALL'], add: ['SYS_PTRACE'] },
          },
        },
        restrictedOnly,
      ],
      ['restricted', { securityContext: { ...securityContext, ...nobody } }, 'ok'],
    ])('an ephemeral container that is %s: %s', async (_, extra, message) => {
      expect(await debug(extra)).toContain(message);
    });

    test('the kubelet reports its status', async () => {
      const body = { status: { phase: 'Running' } };
      expect(
        await outcome(
          admin.patch(pods, key, { type: 'merge', body }, { subresource: 'status', dryRun: true }),
        ),
      ).toBe('ok');
    });
  });
});

describe("an existing pod of an editor's", () => {
  const key = { name: 'mine', namespace };
  beforeAll(async () => {
    const { spec } = aPod();
    await editor.create(pods, { metadata: { ...key, labels: { app: 'mine' } }, spec });
  });

  test.each<[what: string, body: object, message: string]>([
    [
      'gets no label of a VM',
      { metadata: { labels: { 'svc3.dev/vm': 'x' } } },
      'only svc3 itself changes labels',
    ],
    [
      'gets no VM as its owner',
      { metadata: { ownerReferences: [{ apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'x', uid: 'u' }] } },
      'only svc3 itself makes an object',
    ],
    ['gets another image', { spec: { containers: [{ name: 'a', image: 'c' }] } }, 'ok'],
    ['gets a label', { metadata: { labels: { app: 'other' } } }, 'ok'],
  ])('%s', async (_, body, message) => {
    expect(await outcome(editor.patch(pods, key, { type: 'strategic', body }, { dryRun: true }))).toContain(
      message,
    );
  });
});

test('a static pod is shown by the kubelet of its node, and by nobody else', async () => {
  await admin.create(nodes, { metadata: { name: 'n1' } });
  const { uid } = (await admin.get(nodes, 'n1')).metadata;
  const mirror = aPod({
    annotations: { 'kubernetes.io/config.mirror': 'x' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n1', uid: uid, controller: true }],
    spec: { nodeName: 'n1', hostNetwork: true },
  });
  expect(await tryPod(mirror)).toContain(restrictedOnly);
  const file = join(dirname(installation.manifest), 'mirror.json');
  await writeFile(file, JSON.stringify(mirror));
  const asKubelet = ['--as=system:node:n1', '--as-group=system:nodes', '--as-group=system:authenticated'];
  expect(await installation.kubectl('create', '--dry-run=server', '-f', file, ...asKubelet)).toContain(
    'created',
  );
});

test('the names of the accounts are those of the chart', async () => {
  const policies = (await rendered()).filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
  const text = JSON.stringify(policies.filter(({ metadata }) => metadata.name.endsWith('-pods')));
  expect(text.split(operatorName)).toHaveLength(3);
});

import { storedMeta } from '../../../../support/storedmeta.ts';
import { describe, expect, test } from 'vitest';
import { RunnerSpec } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings } from '../../../../../src/api/vm.ts';
import { podFacts } from '../../../../../src/placement/podfacts.ts';
import { Inventory } from '../../../../../src/placement/inventory.ts';
import { place } from '../../../../../src/placement/place.ts';
import { podNameOf } from '../../../../../src/controllers/vm/names.ts';
import { buildPod, type PodInput } from '../../../../../src/controllers/vm/pod/pod.ts';
import { vmSettingsFrom } from '../../../../../src/controllers/vm/environment.ts';
import { statusPorts } from '../../../../../src/controllers/vm/pod/podports.ts';
import { placementRequest } from '../../../../../src/controllers/vm/pod/request.ts';
import type { VmSettings } from '../../../../../src/controllers/vm/settings.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aNode } from '../../../placement/builders.ts';
import { aVm, effective, podInput } from '../builders.ts';

function specOf(given: Partial<PodInput> = {}) {
  return buildPod(podInput(given)).spec;
}

function runnerSpecOf(given: Partial<PodInput> = {}) {
  const { annotations } = buildPod(podInput(given)).metadata;
  return RunnerSpec.parse(JSON.parse(annotations?.['svc3.dev/runner-spec'] ?? ''));
}

const gpu = { ...effective, gpuPassthrough: 'Enabled' as const, vncConsole: 'Disabled' as const };

describe('the pod of a VM', () => {
  test('is pinned by the field, not by a label', () => {
    expect(specOf().affinity?.nodeAffinity).toEqual({
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }],
      },
    });
    expect(specOf().nodeName).toBeUndefined();
  });

  test('is controlled by its VM, and keeps it until it is gone itself', () => {
    const { apiVersion, kind, metadata } = buildPod(podInput());
    expect([apiVersion, kind]).toEqual(['v1', 'Pod']);
    expect(metadata.ownerReferences).toEqual([
      {
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        name: 'web',
        uid: 'vm-uid',
        controller: true,
        blockOwnerDeletion: true,
      },
    ]);
  });

  test('remembers the version of the pull Secret that it was made with', () => {
    const key = 'svc3.dev/pull-secret-version';
    expect(buildPod(podInput({ pullSecretVersion: '7' })).metadata.annotations).toHaveProperty([key], '7');
    expect(buildPod(podInput()).metadata.annotations).not.toHaveProperty([key]);
  });

  test('says what its runner image is pulled with, whatever a webhook makes of that', () => {
    const settings = vmSettings({ runnerImagePullPolicy: 'Always', runnerPullSecret: 'registry' });
    const said = buildPod(podInput({ settings })).metadata.annotations?.['svc3.dev/pulls-with'] ?? '';
    expect(JSON.parse(said)).toEqual({ image: settings.runnerImage, policy: 'Always', secret: 'registry' });
  });

  test('names the trace of its start to the runner, and none where none is recorded', () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    expect(runnerSpecOf({ traceparent }).traceparent).toBe(traceparent);
    expect(runnerSpecOf()).not.toHaveProperty('traceparent');
  });

  test('starts its runner again where it is: the disk of an Ephemeral VM is in the pod', () => {
    expect(specOf().restartPolicy).toBe('Always');
  });

  test('has every port of its guest, also those below 1024, and goes through no volume to own it where it is new', () => {
    expect(specOf().securityContext).toMatchObject({
      fsGroup: 107,
      fsGroupChangePolicy: 'OnRootMismatch',
      sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }],
    });
    expect(specOf().securityContext).not.toHaveProperty('supplementalGroups');
  });

  test.each<[string, Partial<PodInput>]>([
    [
      'a Persistent disk',
      { claimName: 'svc3-vm-web', effective: { ...effective, disk: { storage: 'Persistent' } } },
    ],
    ['a data disk', { effective: { ...effective, disks: [{ name: 'logs', size: '1Gi' }] } }],
  ])('has what another user has made on the claim of %s, with a GPU or without', (_what, given) => {
    expect(specOf(given).securityContext).toMatchObject({ fsGroup: 107, fsGroupChangePolicy: 'Always' });
  });

  test("has the VM's tolerations", () => {
    const tolerations = [{ key: 'team', operator: 'Exists' as const }];
    expect(specOf({ effective: { ...effective, tolerations } }).tolerations).toEqual(tolerations);
    expect(specOf()).not.toHaveProperty('tolerations');
  });

  test('tells the runner the UID of the pod, and keeps its last words', () => {
    const [container] = specOf().containers;
    expect(container).toMatchObject({
      name: 'runner',
      env: [
        { name: 'SVC3_POD_UID', valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } },
        // Of a LimitRange of the namespace, or of the node.
        {
          name: 'SVC3_EPHEMERAL_STORAGE',
          valueFrom: { resourceFieldRef: { resource: 'limits.ephemeral-storage' } },
        },
      ],
      terminationMessagePolicy: 'FallbackToLogsOnError',
    });
  });

  test('requests local storage where the kubelet counts it', () => {
    const requests = (requestsEphemeralStorage: boolean) =>
      specOf({ placement: { ...podInput().placement, requestsEphemeralStorage } }).containers[0]?.resources;
    expect(requests(true)?.requests).toMatchObject({ 'ephemeral-storage': '256Mi' });
    expect(requests(false)?.requests).not.toHaveProperty('ephemeral-storage');
    expect(Object.keys(requests(true)?.limits ?? {})).toEqual(['memory']);
  });

  test.each<[string, 'livenessProbe' | 'readinessProbe' | 'startupProbe', object]>([
    [
      'whose runner does not answer for two minutes is started again',
      'livenessProbe',
      {
        httpGet: { path: '/livez', port: 8443, scheme: 'HTTPS' },
        periodSeconds: 20,
        failureThreshold: 6,
        timeoutSeconds: 5,
      },
    ],
    [
      'is Ready as soon as its guest is, and no longer',
      'readinessProbe',
      { periodSeconds: 2, failureThreshold: 1, timeoutSeconds: 3660 },
    ],
    [
      'waits half an hour for its guest to boot',
      'startupProbe',
      { periodSeconds: 5, timeoutSeconds: 600, failureThreshold: 3 },
    ],
  ])('%s', (_sentence, probe, expected) => {
    expect(specOf().containers[0]?.[probe]).toMatchObject(expected);
  });

  describe('with all volumes', () => {
    const all: Partial<PodInput> = {
      effective: {
        ...effective,
        iso: 'r.example.com/tools@sha256:b',
        userData: { secretName: 'seed' },
        disks: [{ name: 'logs', size: '5Gi' }],
      },
    };

    test('has the image and the medium as images, and the user data of its Secret where that exists', () => {
      const image = (reference: string) => ({ image: { reference, pullPolicy: 'IfNotPresent' } });
      const volumes = new Map(specOf(all).volumes?.map(({ name, ...volume }) => [name, volume]));
      expect(volumes.get('image')).toEqual(image(effective.image));
      expect(volumes.get('iso')).toEqual(image('r.example.com/tools@sha256:b'));
      expect(volumes.get('userdata')).toEqual({
        secret: { secretName: 'seed', optional: true, items: [{ key: 'userData', path: 'userData' }] },
      });
      expect(volumes.get('run')).toEqual({ emptyDir: { medium: 'Memory', sizeLimit: '16Mi' } });
      expect(volumes.get('podinfo')).toEqual({
        downwardAPI: {
          items: ['control-keys', 'runner-spec', 'effective'].map((path) => ({
            path,
            fieldRef: { fieldPath: `metadata.annotations['svc3.dev/${path}']` },
          })),
        },
      });
    });

    test('mounts each where the runner looks for it, and what is not to change read-only', () => {
      const mounts = specOf(all).containers[0]?.volumeMounts ?? [];
      expect(mounts).toEqual([
        { name: 'image', mountPath: '/image', readOnly: true },
        { name: 'iso', mountPath: '/iso', readOnly: true },
        { name: 'userdata', mountPath: '/etc/svc3/userdata', readOnly: true },
        { name: 'state', mountPath: '/var/lib/svc3' },
        { name: 'disk-logs', mountPath: '/var/lib/svc3-disks/logs' },
        { name: 'run', mountPath: '/run/vm' },
        { name: 'podinfo', mountPath: '/etc/svc3/podinfo', readOnly: true },
      ]);
      const names = (list: readonly { name: string }[] = []) => list.map(({ name }) => name).sort();
      expect(names(specOf(all).volumes)).toEqual(names(mounts));
      expect(names(specOf().volumes)).toEqual(names(specOf().containers[0]?.volumeMounts));
    });

    test('tells the runner of them', () => {
      expect(runnerSpecOf(all)).toMatchObject({ iso: true, userData: 'seed' });
      expect(runnerSpecOf().iso).toBe(false);
      expect(runnerSpecOf()).not.toHaveProperty('userData');
    });
  });

  test('tells the runner which requests are answered by its first boot', () => {
    const requests = { startRequest: 's', restartRequest: 'r', revertRequest: 'v' };
    expect(runnerSpecOf({ vm: aVm({ spec: requests }) })).toMatchObject(requests);
    for (const request of Object.keys(requests)) expect(runnerSpecOf()).not.toHaveProperty(request);
  });

  test.each<[EffectiveSettings, boolean]>([
    [gpu, true],
    [{ ...gpu, architecture: 'arm64' }, false],
    [effective, false],
  ])('tells the runner whether it has a bundle of cards', (given, expected) => {
    expect(runnerSpecOf({ effective: given }).gpuPassthrough).toBe(expected);
  });

  test('has no credential of the cluster in it', () => {
    expect(specOf()).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(specOf().volumes?.map((volume) => Object.keys(volume).filter((key) => key !== 'name'))).toEqual([
      ['image'],
      ['emptyDir'],
      ['emptyDir'],
      ['downwardAPI'],
    ]);
  });

  test('is what Pod Security calls restricted', () => {
    expect(specOf().securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 107,
      runAsGroup: 107,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(specOf().containers[0]?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
    });
  });

  test('with a GPU is root of group 107 with the one capability IPC_LOCK and the bundle', () => {
    const spec = specOf({ effective: gpu });
    expect(spec.securityContext).toMatchObject({ runAsUser: 0, runAsGroup: 107 });
    expect(spec.containers[0]?.securityContext?.capabilities).toEqual({ add: ['IPC_LOCK'], drop: ['ALL'] });
    expect(spec.containers[0]?.resources?.limits).toMatchObject({ 'svc3.dev/gpu-passthrough': '1' });
  });

  test('of an ARM VM asks for no bundle though its GPU passthrough is on', () => {
    const spec = specOf({ effective: { ...gpu, architecture: 'arm64' } });
    expect(spec.containers[0]?.resources?.limits).not.toHaveProperty('svc3.dev/gpu-passthrough');
    expect(spec.securityContext?.runAsUser).toBe(107);
  });

  test('under kvm asks for the device and joins its group', () => {
    const placement = { ...podInput().placement, accelerator: 'kvm' as const };
    const spec = specOf({ placement, kvmGroups: [36] });
    expect(spec.containers[0]?.resources?.requests).toMatchObject({ 'svc3.dev/kvm': '1' });
    expect(spec.securityContext?.supplementalGroups).toEqual([36]);
  });

  test('under kvm without a node of its own keeps away from nodes that are labelled to emulate', () => {
    const placement = { ...podInput().placement, node: undefined, accelerator: 'kvm' as const };
    const spec = specOf({ placement, kvmGroups: [36, 104] });
    expect(spec.containers[0]?.resources?.limits).toMatchObject({ 'svc3.dev/kvm': '1' });
    expect(spec.securityContext?.supplementalGroups).toEqual([36, 104]);
    const terms =
      spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
    expect(terms).toHaveLength(2);
    for (const { matchExpressions } of terms)
      expect(matchExpressions).toContainEqual({
        key: 'svc3.dev/accelerator',
        operator: 'NotIn',
        values: ['tcg'],
      });
  });

  describe('with affinity', () => {
    const term = { labelSelector: { matchLabels: { app: 'db' } }, topologyKey: 'zone' };
    const both = {
      requiredDuringSchedulingIgnoredDuringExecution: [term],
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: term }],
    };
    const wanted = {
      weight: 1,
      preference: { matchExpressions: [{ key: 'ssd', operator: 'Exists' as const }] },
    };
    const nodeAffinity = {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: ['a', 'b'].map((key) => ({
          matchExpressions: [{ key, operator: 'Exists' as const }],
        })),
      },
      preferredDuringSchedulingIgnoredDuringExecution: [wanted],
    };
    const spread = [
      { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' as const, labelSelector: {} },
    ];
    const own = {
      ...effective,
      affinity: { nodeAffinity, podAffinity: both, podAntiAffinity: both },
      topologySpreadConstraints: spread,
    };

    test('and a node leaves to kube-scheduler what may become untrue: who has to be there, and who must not', () => {
      const { affinity, topologySpreadConstraints } = specOf({ effective: own });
      const required = { requiredDuringSchedulingIgnoredDuringExecution: [term] };
      expect(affinity).toEqual({
        nodeAffinity: specOf().affinity?.nodeAffinity,
        podAffinity: required,
        podAntiAffinity: required,
      });
      expect(topologySpreadConstraints).toBeUndefined();
    });

    test('without a node leaves all of it to kube-scheduler, each term with what svc3 asks of nodes', () => {
      const placement = { ...podInput().placement, node: undefined };
      const { affinity, topologySpreadConstraints } = specOf({ effective: own, placement });
      expect(affinity).toMatchObject({ podAffinity: both, podAntiAffinity: both });
      expect(topologySpreadConstraints).toEqual(spread);
      const { nodeAffinity: found } = affinity ?? {};
      expect(found?.preferredDuringSchedulingIgnoredDuringExecution).toEqual([wanted]);
      const terms = found?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
      const keys = terms.map(({ matchExpressions }) => matchExpressions?.map(({ key }) => key));
      const ours = ['kubernetes.io/os', 'kubernetes.io/arch', 'svc3.dev/namespace'];
      expect(keys).toEqual(['a', 'a', 'b', 'b'].map((key) => ours.concat(key)));
    });
  });

  test('names the pull Secret where there is one, and that of the runner image', () => {
    expect(specOf().imagePullSecrets).toBeUndefined();
    const settings = vmSettings({ runnerPullSecret: 'runner' });
    expect(specOf({ pullSecretVersion: '7', settings }).imagePullSecrets).toEqual([
      { name: 'svc3-registry-credentials' },
      { name: 'runner' },
    ]);
  });

  test('mounts the claim of each data disk, and tells the runner what is in it', () => {
    const disks = [
      { name: 'logs', size: '5Gi' },
      { name: 'old', claimName: 'archive', format: 'QCOW2' as const },
      { name: 'plain', claimName: 'plain' },
    ];
    const spec = specOf({ effective: { ...effective, disks } });
    expect(spec.volumes?.filter(({ name }) => name.startsWith('disk-'))).toEqual([
      { name: 'disk-logs', persistentVolumeClaim: { claimName: 'svc3-vm-web.logs' } },
      { name: 'disk-old', persistentVolumeClaim: { claimName: 'archive' } },
      { name: 'disk-plain', persistentVolumeClaim: { claimName: 'plain' } },
    ]);
    expect(spec.containers[0]?.volumeMounts).toContainEqual({
      name: 'disk-old',
      mountPath: '/var/lib/svc3-disks/old',
    });
    expect(runnerSpecOf({ effective: { ...effective, disks } }).disks).toEqual([
      { name: 'logs', format: 'raw', bytes: 5 * 2 ** 30 },
      { name: 'old', format: 'qcow2' },
      { name: 'plain', format: 'raw' },
    ]);
  });

  test('keeps a Persistent disk on its claim', () => {
    expect(specOf({ claimName: 'svc3-vm-web' }).volumes?.[1]).toEqual({
      name: 'state',
      persistentVolumeClaim: { claimName: 'svc3-vm-web' },
    });
  });

  test("leads host ports to the guest's ports", () => {
    const ports = [{ nodePort: 20000, guestPort: 80, protocol: 'UDP' as const }];
    const given = { effective: { ...effective, ports } };
    expect(specOf(given).containers[0]?.ports).toEqual([
      { name: 'ssh', containerPort: 22, hostPort: 8822, protocol: 'TCP' },
      { name: 'screenshare', containerPort: 5900, hostPort: 5900, protocol: 'TCP' },
      { name: 'port-0', containerPort: 80, hostPort: 20000, protocol: 'UDP' },
      { name: 'control', containerPort: 8443, protocol: 'TCP' },
    ]);
    expect(runnerSpecOf(given).ports).toEqual([
      { podPort: 22, guestPort: 22, protocol: 'TCP' },
      { podPort: 5900, guestPort: 5900, protocol: 'TCP' },
      { podPort: 80, guestPort: 80, protocol: 'UDP' },
    ]);
  });

  describe('with metrics', () => {
    const settings = vmSettings({ vmMetrics: true });
    const portNames = (given: Partial<PodInput>) =>
      specOf(given).containers[0]?.ports?.map(({ name }) => name);

    test('has their port, which its runner is told', () => {
      expect(portNames({ settings })).toContain('metrics');
      expect(runnerSpecOf({ settings }).metricsPort).toBe(8444);
      expect(portNames({})).not.toContain('metrics');
      expect(runnerSpecOf().metricsPort).toBeUndefined();
    });

    test('leaves a port that a node leads there to the guest, under another number on the pod', () => {
      const ports = [{ nodePort: 20000, guestPort: 8444, protocol: 'TCP' as const }];
      const given = { settings, effective: { ...effective, ports } };
      expect(runnerSpecOf(given).metricsPort).toBe(8444);
      expect(runnerSpecOf(given).ports).toContainEqual({ podPort: 64001, guestPort: 8444, protocol: 'TCP' });
    });

    test('tells its runner since when the VM waited for it, and of no times where nobody asks for metrics', () => {
      const times = { waitedSinceMs: 1_000, madeAtMs: 3_500 };
      expect(runnerSpecOf({ settings, times })).toMatchObject(times);
      expect(runnerSpecOf({ settings })).not.toHaveProperty('madeAtMs');
      expect(runnerSpecOf({ times })).not.toHaveProperty('madeAtMs');
    });

    test('serves none where the guest has had the port since before', () => {
      const ports = [{ guestPort: 8444, protocol: 'TCP' as const }];
      const given = { settings, effective: { ...effective, ports } };
      expect(portNames(given)).not.toContain('metrics');
      expect(runnerSpecOf(given).metricsPort).toBeUndefined();
    });
  });

  test('without ports of the node is not counted against their ranges: a node takes more than 50', () => {
    const settings = vmSettings();
    const inventory = new Inventory(settings.portRanges);
    inventory.setNode(aNode('n1', { cpu: 10_000, memory: 2 ** 40 }));
    const placed = (given: EffectiveSettings, count: number) =>
      Array.from({ length: count }, (_, index) => {
        const placement = place(inventory, placementRequest(podInput().vm, given, settings));
        if (placement.kind === 'placed') inventory.assume(`${given.image} ${index}`, placement.usage);
        return placement.kind;
      });
    const none = { ...effective, nodePorts: { ssh: 'Disabled', screenshare: 'Disabled' } as const };
    expect(new Set(placed(none, 60))).toEqual(new Set(['placed']));
    expect(placed({ ...effective, image: 'other' }, 51).filter((kind) => kind === 'placed')).toHaveLength(50);
  });

  test("has the VM's PriorityClass, else the installation's", () => {
    expect(specOf()).not.toHaveProperty('priorityClassName');
    const settings = vmSettings({ priorityClassName: 'vms' });
    expect(specOf({ settings })).toMatchObject({ priorityClassName: 'vms' });
    const own = { ...effective, priorityClassName: 'batch' };
    expect(specOf({ settings, effective: own })).toMatchObject({ priorityClassName: 'batch' });
  });

  test('has the host name that the VM says, and the name of its headless Service', () => {
    expect(specOf()).toMatchObject({ hostname: 'web' });
    expect(specOf()).not.toHaveProperty('subdomain');
    const vm = aVm({ spec: { powerState: 'Running', hostname: 'www' } });
    const given = { vm, effective: { ...effective, subdomain: 'vms' } };
    expect(specOf(given)).toMatchObject({ hostname: 'www', subdomain: 'vms' });
    expect(runnerSpecOf(given).hostname).toBe('www');
    expect(runnerSpecOf().hostname).toBeUndefined();
  });

  test('says that the image has memory only where it was saved here', () => {
    expect(runnerSpecOf({ isWarm: true }).warm).toBe(true);
    expect(runnerSpecOf().warm).toBe(false);
  });

  test('has a volume for its Ephemeral disk that holds the disk, its copies and no more', () => {
    const settings = vmSettings({ ephemeralLimitBytes: 10 * 2 ** 30 });
    const stateOf = (given: Partial<PodInput>) => specOf(given).volumes?.find(({ name }) => name === 'state');
    // 3 × 10 Gi and 1 % for the tables of qcow2, twice the memory of 3 Gi, 128 Mi for small files.
    const sized = { ...effective, memory: '3Gi' };
    const sizeLimit = `${31_156 + 2 * 3 * 1024}Mi`;
    expect(stateOf({ settings, effective: sized })).toEqual({ name: 'state', emptyDir: { sizeLimit } });
    expect(runnerSpecOf({ settings }).diskLimitBytes).toBe(10 * 2 ** 30);
    expect(runnerSpecOf({ settings, claimName: 'svc3-vm-web' }).diskLimitBytes).toBeUndefined();
  });

  test('tells the runner what to run', () => {
    const vm = aVm({ spec: { powerState: 'Stopped', revertRequest: 'r1' } });
    expect(
      runnerSpecOf({ vm, effective: { ...effective, disk: { size: '1Gi' }, systemSerial: 'X' } }),
    ).toMatchObject({
      vm: { namespace: 'team', name: 'web', uid: 'vm-uid' },
      cpu: 1,
      memoryMiB: 256,
      accelerator: 'tcg',
      powerState: 'Stopped',
      revertRequest: 'r1',
      diskBytes: 2 ** 30,
      systemSerial: 'X',
      imageDigest: `sha256:${'a'.repeat(64)}`,
      graceSeconds: 60,
    });
  });

  describe('the raw console on a port of the node (chart value vnc.hostPort)', () => {
    const settings = vmSettings({ portRanges: { vnc: { first: 5999, last: 6048 } } });
    const placedWith = (given: EffectiveSettings, ranges = settings) => {
      const inventory = new Inventory(ranges.portRanges);
      inventory.setNode(aNode('n1', { gpuEnabled: true, gpu: 1 }));
      const placed = place(inventory, placementRequest(podInput().vm, given, ranges));
      if (placed.kind !== 'placed') throw new Error(placed.message);
      return { placement: placed, effective: given, settings: ranges };
    };
    const portsOf = (input: Partial<PodInput>) => specOf(input).containers[0]?.ports ?? [];

    test('is the first free of its range, and the runner serves it', () => {
      const input = placedWith(effective);
      expect(portsOf(input).find(({ name }) => name === 'vnc')).toEqual({
        name: 'vnc',
        containerPort: 64000,
        hostPort: 5999,
        protocol: 'TCP',
      });
      expect(statusPorts(portsOf(input), effective, [])).toEqual({ ssh: 0, vnc: 5999 });
      expect(runnerSpecOf(input).vncPort).toBe(64000);
      expect(runnerSpecOf().vncPort).toBeUndefined();
    });

    test.each<[string, EffectiveSettings, VmSettings]>([
      ['where the console is off', { ...effective, vncConsole: 'Disabled' }, settings],
      ['beside a GPU (spec: GPU passthrough rule 4)', gpu, settings],
      ['where the chart does not say so', effective, vmSettings()],
    ])('is none %s', (_sentence, given, ranges) => {
      const input = placedWith(given, ranges);
      expect(portsOf(input).filter(({ name }) => name === 'vnc')).toEqual([]);
      expect(statusPorts(portsOf(input), given, []).vnc).toBeUndefined();
      expect(runnerSpecOf(input).vncPort).toBeUndefined();
    });

    test.each([
      ['true', { vnc: { first: 5999, last: 6048 } }],
      ['false', {}],
      [undefined, {}],
    ])('has a range where SVC3_VNC_HOST_PORT is %s', (hostPort, portRanges) => {
      const data = {
        SVC3_RUNNER_IMAGE: 'r.example.com/runner:1',
        SVC3_PORT_RANGE_VNC: '5999-6048',
        ...(hostPort === undefined ? {} : { SVC3_VNC_HOST_PORT: hostPort }),
      };
      expect(vmSettingsFrom(data).portRanges).toEqual(portRanges);
    });
  });

  test('asks the runner for news of its own VM, longer than any stop, and tells it what makes the guest ready', () => {
    const [container] = specOf({}).containers;
    const { readinessProbe, startupProbe } = container ?? {};
    expect(readinessProbe?.httpGet?.path).toBe('/readyz?vm=vm-uid&wait=3600');
    // The runner answers before the kubelet gives up, or every hour of a stopped VM had a Warning.
    expect(readinessProbe?.timeoutSeconds).toBeGreaterThan(3600);
    expect(startupProbe?.exec?.command?.at(-1)).toContain('test -e /run/vm/started');
    const readiness = { tcp: { port: 80 } };
    const given = { effective: { ...effective, readiness }, settings: vmSettings({ readinessSeconds: 20 }) };
    expect(runnerSpecOf(given)).toMatchObject({ readiness: { ...readiness, timeoutSeconds: 20 } });
  });

  test('gives the guest its time and the runner ten seconds more', () => {
    expect(specOf({ settings: vmSettings({ graceSeconds: 30 }) }).terminationGracePeriodSeconds).toBe(40);
  });

  test('a guest that its end suspends has the time that its memory takes, and says so to the runner', () => {
    const settings = vmSettings({ graceSeconds: 30 });
    const persistent = { ...effective, memory: '2Gi', disk: { storage: 'Persistent' as const, size: '1Gi' } };
    const given = { settings, effective: { ...persistent, onEviction: 'Suspend' as const } };
    expect(specOf(given).terminationGracePeriodSeconds).toBe(30 + 10 + 31);
    expect(runnerSpecOf(given)).toMatchObject({
      graceSeconds: 30,
      onEviction: 'Suspend',
      suspendSeconds: 31,
    });
    const ephemeral = { settings, effective: { ...effective, onEviction: 'Suspend' as const } };
    expect(specOf(ephemeral).terminationGracePeriodSeconds).toBe(40);
    expect(runnerSpecOf(ephemeral)).toMatchObject({ onEviction: 'Shutdown', suspendSeconds: 0 });
  });

  test('left to kube-scheduler asks for what placement would', () => {
    const placement = {
      node: undefined,
      accelerator: 'auto' as const,
      ports: {},
      requestsEphemeralStorage: true,
    };
    const given = { ...gpu, tag: 'ci', tagRequired: true, nodeName: 'n7' };
    const terms = specOf({ placement, effective: given }).affinity?.nodeAffinity
      ?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
    const reservations = [
      { key: 'svc3.dev/namespace', operator: 'DoesNotExist' },
      { key: 'svc3.dev/namespace', operator: 'In', values: ['', 'team'] },
    ];
    expect(terms).toEqual(
      reservations.map((reservation) => ({
        matchExpressions: [
          { key: 'kubernetes.io/os', operator: 'In', values: ['linux'] },
          { key: 'kubernetes.io/arch', operator: 'In', values: ['amd64'] },
          reservation,
          { key: 'tag.svc3.dev/ci', operator: 'In', values: ['true'] },
        ],
        matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n7'] }],
      })),
    );
  });

  test.each([
    ['tcg', 0],
    ['kvm', 1000],
  ] as const)('under %s counts for exactly what placement assumed', (accelerator, kvm) => {
    const settings = vmSettings({ cpuOvercommit: 8 });
    const inventory = new Inventory(settings.portRanges);
    inventory.setNode(aNode('n1', { kvm }));
    const ports = [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' as const }];
    const given = { ...effective, ports };
    const placed = place(inventory, placementRequest(podInput().vm, given, settings));
    if (placed.kind !== 'placed') throw new Error(placed.message);
    expect(placed.accelerator).toBe(accelerator);
    const pod = buildPod(podInput({ placement: placed, effective: given, settings }));
    const facts = podFacts({ ...pod, metadata: storedMeta(pod.metadata) }, 'vm-uid');
    expect(facts?.node).toBe('n1');
    expect(facts?.requests.slice(0, 6)).toEqual(placed.usage.requests.slice(0, 6));
    expect(facts?.ports).toEqual(placed.usage.ports);
  });
});

describe('podNameOf', () => {
  test('is the name with a prefix', () => {
    expect(podNameOf('web')).toBe('svc3-vm-web');
  });

  test('ends at 63 characters and still tells names apart', () => {
    const long = 'a'.repeat(62);
    expect(podNameOf(`${long}b`)).toHaveLength(63);
    expect(podNameOf(`${long}b`)).not.toBe(podNameOf(`${long}c`));
    expect(podNameOf('a'.repeat(55))).toBe(`svc3-vm-${'a'.repeat(55)}`);
  });
});

import { describe, expect, test } from 'vitest';
import { invalidField } from '../../../src/errors.ts';
import { vmChangeOf, type VmChangeRequest } from '../../../src/wire/vmchange.ts';
import { aVm } from '../controllers/vm/builders.ts';

const hostPortsAllowed = { first: 20_000, last: 29_999 };
const specOf = (request: VmChangeRequest) => vmChangeOf(request, { hostPortsAllowed });

describe('the merge patch of a change', () => {
  test.each<[what: string, request: VmChangeRequest, spec: object]>([
    ['nothing', {}, {}],
    ['size', { cpu: 4, memory: 8 }, { cpu: 4, memory: '8192Mi' }],
    ['memory that is to stay', { memory: 0 }, {}],
    [
      'switches',
      { gpuPassthrough: false, vncConsole: true },
      { gpuPassthrough: 'Disabled', vncConsole: 'Enabled' },
    ],
    ['hardware', { netBoost: true, legacyIO: false }, { netBoost: true, legacyIO: false }],
    ['a part of the screen', { displayWidth: 800 }, { display: { width: 800 } }],
    ['a node', { node: 'n2' }, { nodeName: 'n2' }],
    ['a medium that is taken out', { iso: '' }, { iso: '' }],
    ['ports', { reservedPorts: '80' }, { ports: [{ guestPort: 80, protocol: 'TCP' }] }],
    ['no ports', { reservedPorts: '' }, { ports: [] }],
    ['no metadata', { customVMMetadata: '' }, { metadata: [] }],
    ['no keys', { sshAuthorizedKeys: [] }, { sshAuthorizedKeys: [] }],
    ['the deadline', { timeout: 2 }, { startDeadlineSeconds: 120 }],
    ['what becomes of the disk', { disk: { whenDeleted: 'Delete' } }, { disk: { whenDeleted: 'Delete' } }],
    [
      'texts that are empty',
      { tag: '', scheduler: '', systemSerial: '', node: '' },
      { tag: null, scheduler: null, systemSerial: null, nodeName: null },
    ],
    [
      'what never changes, for kube-apiserver to refuse',
      {
        vmConfig: 'c',
        vmConfigNamespace: 'n',
        pool: 'p',
        image: 'i',
        architecture: 'arm64',
        hostname: 'h',
        subdomain: 's',
        sshNodePort: true,
        diskStorage: 'persistent',
      },
      {
        config: 'c',
        configNamespace: 'n',
        pool: 'p',
        image: 'i',
        architecture: 'arm64',
        hostname: 'h',
        subdomain: 's',
        nodePorts: { ssh: 'Enabled' },
        disk: { storage: 'Persistent' },
      },
    ],
  ])('names %s and nothing else', (_what, request, spec) => {
    expect(specOf(request)).toEqual(spec);
  });

  test('takes out the readiness of before', () => {
    expect(specOf({ readiness: { tcp: { port: 80 } } })).toEqual({
      readiness: { tcp: { port: 80 }, http: null, guestAgent: null, none: null },
    });
  });

  test('takes out the affinity of before, but for what is in lists', () => {
    const preferred = [{ weight: 1, podAffinityTerm: { labelSelector: {}, topologyKey: 'zone' } }];
    const podAntiAffinity = { preferredDuringSchedulingIgnoredDuringExecution: preferred };
    expect(specOf({ affinity: { podAntiAffinity } })).toEqual({
      affinity: {
        nodeAffinity: null,
        podAffinity: null,
        podAntiAffinity: { ...podAntiAffinity, requiredDuringSchedulingIgnoredDuringExecution: null },
      },
    });
  });

  test.each<[VmChangeRequest, string]>([
    [{ diskSize: 40 }, 'diskSize'],
    [{ disk: { size: '40Gi' } }, 'disk.size'],
  ])('is none of the size of the disk: %j', (request, field) => {
    expect(() => specOf(request)).toThrow(`${field}: cannot change here; svc3 vm resize grows the disk`);
  });

  test.each([
    ['22:22', '22:22: usable node ports are 20000-29999'],
    ['80,22:22,20080:0', '22:22: usable node ports are 20000-29999; 20080:0: 0 is not a port'],
    ['20080:80,20080:81', '20080:81: node port 20080 is given twice'],
    ['80,80', '80: port 80 of the VM is given twice'],
  ])('closes no port for mappings that cannot be had: %s', (mappings, message) => {
    expect(() => specOf({ reservedPorts: mappings })).toThrow(invalidField('reservedPorts', message));
  });

  test.each<[what: string, said: string | undefined, asked: string, written: string | null]>([
    ['that of the VM, which its spec does not name', undefined, 'team', null],
    ['that of the VM, which its spec names', 'team', 'team', 'team'],
    ['the one that its spec names', 'shared', 'shared', 'shared'],
    ['another one, for kube-apiserver to refuse', undefined, 'shared', 'shared'],
    ['that of the VM, where its spec names another one', 'shared', 'team', 'team'],
  ])('names the namespace of the configuration as the spec does: %s', (_what, said, asked, written) => {
    const vm = aVm({
      metadata: { namespace: 'team' },
      spec: { config: 'c', ...(said === undefined ? {} : { configNamespace: said }) },
    });
    expect(vmChangeOf({ vmConfigNamespace: asked }, { vm })).toEqual({ configNamespace: written });
  });
});

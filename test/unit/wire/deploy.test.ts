import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  guestMetadata,
  memoryQuantity,
  reservedPorts,
  settingsOf,
  vmOf,
  type DeployRequest,
} from '../../../src/wire/deploy.ts';
import { deployBody } from '../../../src/wire/vmschemas.ts';

const allowed = { first: 20_000, last: 29_999 };
const options = { namespace: 'team', hostPortsAllowed: allowed };

describe('port mappings', () => {
  test.each<[string, string | undefined, object[], string[]]>([
    ['nothing', undefined, [], []],
    ['commas and spaces only', ' , ,', [], []],
    ['one', '20080:80', [{ nodePort: 20_080, guestPort: 80, protocol: 'TCP' }], []],
    [
      'two with protocols',
      '20080:80/tcp, 20053:53/UDP',
      [
        { nodePort: 20_080, guestPort: 80, protocol: 'TCP' },
        { nodePort: 20_053, guestPort: 53, protocol: 'UDP' },
      ],
      [],
    ],
    ['outside the range', '30000:80', [], ['usable node ports are 20000-29999']],
    ['of a port that is never given away', '443:443', [], ['usable node ports']],
    ['to a port that is none', '20080:0', [], ['0 is not a port']],
    ['to a port beyond all', '20080:65536', [], ['65536 is not a port']],
    [
      'given twice, which the other protocol is not',
      '20080:80,20080:81,20080:82/udp',
      [
        { nodePort: 20_080, guestPort: 80, protocol: 'TCP' },
        { nodePort: 20_080, guestPort: 82, protocol: 'UDP' },
      ],
      ['node port 20080 is given twice'],
    ],
    [
      'without a port of the node',
      '80, 53/udp',
      [
        { guestPort: 80, protocol: 'TCP' },
        { guestPort: 53, protocol: 'UDP' },
      ],
      [],
    ],
    [
      'to one port of the VM, twice',
      '20080:80,20081:80,80,80/udp',
      [
        { nodePort: 20_080, guestPort: 80, protocol: 'TCP' },
        { guestPort: 80, protocol: 'UDP' },
      ],
      ['port 80 of the VM is given twice', 'port 80 of the VM is given twice'],
    ],
  ])('%s', (_, text, ports, reasons) => {
    const read = reservedPorts(text, allowed);
    expect(read.ports).toEqual(ports);
    expect(read.unusable.map(({ why }) => why)).toEqual(
      reasons.map((reason) => expect.stringContaining(reason)),
    );
  });

  test('that cannot be had are left out of a deploy, which says so', () => {
    const { vm, portWarnings } = vmOf({ image: 'debian', reservedPorts: '80,22:22' }, options);
    expect(vm.spec.ports).toEqual([{ guestPort: 80, protocol: 'TCP' }]);
    expect(portWarnings).toEqual(['Port mapping 22:22 was left out: usable node ports are 20000-29999.']);
  });

  test.each(['80:', '80/', ':80', 'a:b', '20080:80/sctp', '20080:80:80', '-1:80', '1e4:80'])(
    '%s is refused and named',
    (text) => {
      expect(() => reservedPorts(text, allowed)).toThrow(/^reservedPorts: /);
    },
  );

  test('what is taken is in the range and there once, whatever is asked for', () => {
    const mapping = fc
      .tuple(fc.nat(70_000), fc.nat(70_000), fc.constantFrom('', '/tcp', '/udp'))
      .map(([node, guest, protocol]) => `${node}:${guest}${protocol}`);
    fc.assert(
      fc.property(fc.array(mapping, { maxLength: 32 }), (mappings) => {
        const { ports, unusable } = reservedPorts(mappings.join(','), allowed);
        expect(ports.length + unusable.length).toBe(mappings.length);
        for (const { nodePort = 0 } of ports)
          expect(nodePort >= allowed.first && nodePort <= allowed.last).toBe(true);
        const keys = ports.map(({ nodePort, protocol }) => `${nodePort}/${protocol}`);
        expect(new Set(keys).size).toBe(keys.length);
      }),
    );
  });
});

test('ports of the node for SSH and screen sharing are switches of each', () => {
  expect(settingsOf({ sshNodePort: false })).toEqual({ nodePorts: { ssh: 'Disabled' } });
  expect(settingsOf({ sshNodePort: true, screenshareNodePort: false })).toEqual({
    nodePorts: { ssh: 'Enabled', screenshare: 'Disabled' },
  });
});

test('names for the cluster DNS are those of the pod', () => {
  const { vm } = vmOf({ image: 'debian', name: 'web', hostname: 'www', subdomain: 'vms' }, options);
  expect(vm.spec).toMatchObject({ hostname: 'www', subdomain: 'vms' });
});

describe('memory', () => {
  test.each([
    [undefined, undefined],
    [0, undefined],
    [0.25, '256Mi'],
    [2, '2048Mi'],
    [4.8, '4915Mi'],
  ])('of %s GiB is %s', (gib, quantity) => {
    expect(memoryQuantity(gib)).toBe(quantity);
  });

  test.each([0.01, 20_000])('of %s GiB is refused and named', (gib) => {
    expect(() => memoryQuantity(gib)).toThrow(/^memory: /);
  });
});

describe('metadata of the guest', () => {
  test('is a text or an object', () => {
    const pairs = [
      { name: 'a', value: '1' },
      { name: 'b', value: 'x=y' },
    ];
    expect(guestMetadata('a=1,b=x=y')).toEqual(pairs);
    expect(guestMetadata({ a: '1', b: 'x=y' })).toEqual(pairs);
    expect(guestMetadata('')).toBeUndefined();
  });

  test.each(['a', '=1', 'a=1,a=2', 'a b=1', 'ä=1'])('%s is refused and named', (text) => {
    expect(() => guestMetadata(text)).toThrow(/^customVMMetadata: /);
  });
});

describe('a deploy', () => {
  test('without a name gets one of vm- and what kube-apiserver adds', () => {
    expect(vmOf({ image: 'debian' }, options).vm.metadata).toMatchObject({ generateName: 'vm-' });
    expect(vmOf({ name: '', image: 'debian' }, options).vm.metadata).toMatchObject({ generateName: 'vm-' });
  });

  test('with a prefix gets a name that begins so', () => {
    const { metadata } = vmOf({ name: 'web', shouldGenerateName: true, image: 'debian' }, options).vm;
    expect([metadata.generateName, metadata.name]).toEqual(['web-', undefined]);
  });

  test.each([
    ['ten minutes where nothing is said', {}, {}, 600],
    ['the minutes that are said', { timeout: 3 }, {}, 180],
    ['no time where nobody waits', {}, { withoutDeadline: true }, undefined],
    ['the minutes that are said also where nobody waits', { timeout: 3 }, { withoutDeadline: true }, 180],
  ])('has %s to start', (_, request, more, seconds) => {
    const { spec } = vmOf({ image: 'debian', ...request }, { ...options, ...more }).vm;
    expect(spec.startDeadlineSeconds).toBe(seconds);
  });

  test('leaves out what is empty, so that it is inherited', () => {
    const given = { tag: '', systemSerial: '', scheduler: '' as const, node: '', memory: 0 };
    expect(settingsOf(given)).toEqual({});
    expect(vmOf({ vmConfig: 'c', ...given }, options).vm.spec).toEqual({
      config: 'c',
      startDeadlineSeconds: 600,
    });
  });

  test.each<[what: string, request: Partial<DeployRequest>, disk: object | undefined]>([
    ['nothing', {}, undefined],
    ['its storage', { diskStorage: 'persistent' }, { storage: 'Persistent' }],
    [
      'its storage and size',
      { diskStorage: 'ephemeral', diskSize: '40Gi' },
      { storage: 'Ephemeral', size: '40Gi' },
    ],
    ['its size as a number of GiB', { diskSize: 0.5 }, { size: '512Mi' }],
    [
      'one by each of its names',
      { disk: { storageClassName: 'fast', size: '4Gi' }, diskStorage: 'persistent', diskSize: '4Gi' },
      { storageClassName: 'fast', size: '4Gi', storage: 'Persistent' },
    ],
    ['one size in two ways', { disk: { size: '4Gi' }, diskSize: '4096Mi' }, { size: '4096Mi' }],
    ['one size as a number, too', { disk: { size: '40Gi' }, diskSize: 40 }, { size: '40960Mi' }],
  ])('has the disk that is asked for: %s', (_what, request, disk) => {
    expect(vmOf({ image: 'debian', ...request }, options).vm.spec.disk).toEqual(disk);
    expect(deployBody.parse({ image: 'debian', ...request })).toMatchObject(request);
  });

  test.each<[field: string, request: Partial<DeployRequest>]>([
    ['diskStorage', { diskStorage: 'ephemeral', disk: { storage: 'Persistent' } }],
    ['diskSize', { diskSize: '4Gi', disk: { size: '8Gi' } }],
    ['diskSize', { diskSize: '4G', disk: { size: '4Gi' } }],
  ])('that says two things about its disk is refused, and %s named', (field, request) => {
    expect(() => vmOf({ image: 'debian', ...request }, options)).toThrow(`${field}: says something else`);
  });

  test('says an empty ISO, which overrides that of the configuration', () => {
    expect(vmOf({ vmConfig: 'c', iso: '' }, options).vm.spec).toMatchObject({ config: 'c', iso: '' });
  });
});

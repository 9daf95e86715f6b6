import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { Agent, request } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { metricsPort } from '../../../src/api/meta.ts';
import { runnerPaths } from '../../../src/api/runner.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { createVmUsages } from '../../../src/http/streams/vmusages.ts';
import { signMetricsToken } from '../../../src/runnerapi/metricstoken.ts';
import { faultsOfMetrics, startPrometheus } from '../../support/prometheus.ts';
import { aVm } from '../../unit/controllers/vm/builders.ts';
import {
  allowBootTime,
  aPod,
  claimFor,
  clientFor,
  installation,
  placeIso,
  type RunningRunner,
  startRunner,
} from './harness.ts';

allowBootTime();

/** The agent and the balloon's driver come up in emulated guests. */
const within = { timeout: 150_000, interval: 200 };
const token = signMetricsToken('test', installation.privateKey);

async function portOf(runner: RunningRunner): Promise<number> {
  const found = () => /"port":(\d+),"msg":"metrics endpoint listens"/.exec(runner.log())?.[1];
  await expect.poll(found, within).toBeDefined();
  return Number(found());
}

async function scrape(port: number): Promise<string> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  onTestFinished(() => dispatcher.destroy());
  const headers = { authorization: `Bearer ${token}` };
  const { statusCode, body } = await request(`https://127.0.0.1:${port}/metrics`, { dispatcher, headers });
  expect(statusCode).toBe(200);
  return body.text();
}

/** The value of a series, as it is written. */
function valueOf(text: string, series: string): number {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1));
}

/** Seconds since a figure was taken, by its series `_timestamp_seconds`. */
function ageOf(text: string, name: string): number {
  return Date.now() / 1000 - valueOf(text, `${name}_timestamp_seconds`);
}

async function aMeasuredVm(): Promise<{ runner: RunningRunner; port: number }> {
  const runner = await startRunner(await aPod({ metricsPort }), { SVC3_METRICS_PORT: '0' });
  return { runner, port: await portOf(runner) };
}

test('what a guest does shows in the metrics of its VM', async () => {
  const { runner, port } = await aMeasuredVm();
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const before = await scrape(port);
  expect(valueOf(before, 'svc3_vm_running')).toBe(1);
  expect(valueOf(before, 'svc3_vm_guest_ready')).toBe(1);
  expect(valueOf(before, 'svc3_vm_vcpus')).toBe(1);
  expect(valueOf(before, 'svc3_vm_memory_bytes')).toBe(192 * 2 ** 20);
  expect(valueOf(before, 'svc3_vm_cpu_seconds_total')).toBeGreaterThan(0);
  expect(valueOf(before, 'svc3_vm_cpu_steal_seconds_total')).toBeGreaterThanOrEqual(0);
  for (const phase of ['disk', 'machine', 'guest'])
    expect(valueOf(before, `svc3_vm_start_phase_seconds{phase="${phase}"}`)).toBeGreaterThanOrEqual(0);
  expect(valueOf(before, 'svc3_vm_start_info{start="cold"}')).toBe(1);
  expect(before).toMatch(/^svc3_vm_info\{architecture="amd64",accelerator="(kvm|tcg)"\} 1$/m);
  expect(valueOf(before, 'svc3_vm_memory_resident_bytes')).toBeGreaterThan(2 ** 24);
  const written = 'svc3_vm_disk_written_bytes_total{disk="disk"}';
  await runner.guest('dd if=/dev/zero of=/metrics-test bs=1M count=8 conv=fsync && rm /metrics-test');
  await expect
    .poll(async () => valueOf(await scrape(port), written), within)
    .toBeGreaterThan(valueOf(before, written) + 4 * 2 ** 20);
  const available = async () => valueOf(await scrape(port), 'svc3_vm_memory_available_bytes');
  await expect.poll(available, within).toBeGreaterThan(2 ** 20);
  expect(await available()).toBeLessThan(192 * 2 ** 20);
  expect(ageOf(await scrape(port), 'svc3_vm_memory_available')).toBeLessThan(60);
  const series = (await scrape(port)).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  expect(series.length).toBeLessThanOrEqual(60);

  await runner.client.power({ action: 'stop' });
  await expect.poll(async () => valueOf(await scrape(port), 'svc3_vm_running'), within).toBe(0);
  expect(await scrape(port)).not.toContain('svc3_vm_cpu_seconds_total');
});

test('a guest of a pool that a VM has claimed is told of as claimed, until it is started again', async () => {
  const pod = await aPod({ metricsPort, standby: 'Suspended' });
  const runner = await startRunner(pod, { SVC3_METRICS_PORT: '0' });
  const waiting = clientFor(runner.port, pod.podUid);
  await expect.poll(() => waiting.state(), within).toMatchObject({ standby: 'Idle' });
  const port = await portOf(runner);
  expect(await scrape(port)).toContain('svc3_vm_start_info{start="cold"} 1');
  const vm = { namespace: 'test', name: 'job', uid: randomUUID() };
  await waiting.claim(claimFor(pod, vm));
  await expect.poll(() => scrape(port), within).toContain('svc3_vm_start_info{start="claimed"} 1');
  expect(await scrape(port)).not.toContain('phase="placed"');
  await clientFor(runner.port, vm.uid).power({ action: 'restart' });
  await expect.poll(() => scrape(port), within).toContain('svc3_vm_start_info{start="cold"} 1');
});

test('what the agent of a guest says is read behind the back of a scrape, and shown with its age', async () => {
  const { runner, port } = await aMeasuredVm();
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const up = async () => valueOf(await scrape(port), 'svc3_vm_guest_agent_up');
  await expect.poll(up, within).toBe(1);
  const used = async () => valueOf(await scrape(port), 'svc3_vm_filesystem_used_bytes');
  await expect.poll(used, within).toBeGreaterThan(0);
  const before = await scrape(port);
  expect(ageOf(before, 'svc3_vm_filesystem')).toBeLessThan(60);
  await runner.guest('dd if=/dev/zero of=/age-test bs=1M count=4 conv=fsync');
  const more = valueOf(before, 'svc3_vm_filesystem_used_bytes') + 3 * 2 ** 20;
  await expect.poll(used, within).toBeGreaterThan(more);
  const since = valueOf(await scrape(port), 'svc3_vm_filesystem_timestamp_seconds');
  expect(since).toBeGreaterThan(valueOf(before, 'svc3_vm_filesystem_timestamp_seconds'));

  await runner.client.power({ action: 'suspend' });
  await expect.poll(up, within).toBe(0);
  await runner.client.power({ action: 'resume' });
  await expect.poll(up, within).toBe(1);
  await runner.guest('(sleep 1; killall qemu-ga) > /dev/null 2>&1 &');
  await expect.poll(up, within).toBe(0);
});

test('a VM has at most 60 series, whatever it has: data disks, a CD, ports, several CPUs, guest agent and balloon', async () => {
  const names = Array.from({ length: 8 }, (_, at) => `data${at}`);
  const ports = (await freePorts(60)).map((podPort, at) => ({
    podPort,
    guestPort: 1000 + at,
    protocol: 'TCP' as const,
  }));
  const disks = names.map((name) => ({ name, bytes: 2 ** 23 }));
  const times = { waitedSinceMs: Date.now() - 2_000, madeAtMs: Date.now() - 1_000 };
  const pod = await aPod({ metricsPort, disks, ports, cpu: 2, iso: true, ...times });
  for (const name of names) {
    const folder = `${pod.root}${runnerPaths.disks}/${name}`;
    await mkdir(folder, { recursive: true });
    execFileSync('mkfs.ext4', ['-q', `${folder}/disk.img`, '8M']);
  }
  const medium = `${pod.root}/medium`;
  await writeFile(medium, Buffer.alloc(2 ** 20));
  await placeIso(pod, medium);
  const runner = await startRunner(pod, { SVC3_METRICS_PORT: '0' });
  const port = await portOf(runner);
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  // The last to come: what the driver of the balloon and the agent say.
  const available = async () => valueOf(await scrape(port), 'svc3_vm_memory_available_bytes');
  await expect.poll(available, within).toBeGreaterThan(0);
  const used = async () => valueOf(await scrape(port), 'svc3_vm_filesystem_used_bytes');
  await expect.poll(used, within).toBeGreaterThan(0);
  // Of two further file systems the fullest is told of.
  await runner.guest(`for name in data0 data1; do
    mkdir -p /mnt/$name
    mount -t ext4 /dev/$(cd /sys/block && grep -lx $name */serial | cut -d/ -f1) /mnt/$name
  done
  dd if=/dev/zero of=/mnt/data1/filler bs=64k || sync`);
  const fullness = async () => {
    const text = await scrape(port);
    const of = (what: string) => valueOf(text, `svc3_vm_data_filesystem_${what}_bytes`);
    return of('used') / of('size');
  };
  await expect.poll(fullness, within).toBeGreaterThan(0.9);
  const text = await scrape(port);
  expect(valueOf(text, 'svc3_vm_data_filesystem_size_bytes')).toBeLessThan(2 ** 23);
  const phases = Array.from(text.matchAll(/phase="(\w+)"/g), ([, name]) => name);
  expect(phases).toEqual(['placed', 'pulled', 'disk', 'machine', 'guest']);
  const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  expect(series.filter((line) => line.startsWith('svc3_vm_disk_reads_total'))).toHaveLength(5);
  expect(series.length).toBeLessThanOrEqual(60);
});

test('Prometheus reads them with the token of the namespace, and promtool finds no fault', async () => {
  const { port } = await aMeasuredVm();
  expect(await faultsOfMetrics(await scrape(port))).toBe('');
  const prometheus = await startPrometheus({
    targets: [
      {
        address: `127.0.0.1:${port}`,
        job: 'svc3-vms',
        labels: { namespace: 'test', vm: 'guest' },
        settings: {
          scheme: 'https',
          tls_config: { insecure_skip_verify: true },
          authorization: { type: 'Bearer', credentials: token },
          sample_limit: 100,
          scrape_interval: '3s',
          scrape_timeout: '3s',
        },
      },
    ],
  });
  onTestFinished(() => prometheus.stop());
  const running = () => prometheus.query('svc3_vm_running{vm="guest"}');
  await expect.poll(running, within).toMatchObject([{ value: [expect.anything(), '1'] }]);
});

test('a port that somebody has keeps no guest from running', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const runner = await startRunner(await aPod({ metricsPort }), { SVC3_METRICS_PORT: `${port}` });
  await runner.reaches({ powerState: 'Running' });
  expect(runner.log()).toContain('there are no metrics');
});

test('without a port in its settings a runner serves none, and the guest has no balloon', async () => {
  const runner = await startRunner(await aPod());
  await runner.reaches({ powerState: 'Running' });
  expect(runner.log()).not.toContain('metrics endpoint');
  expect(await runner.qemuArguments()).not.toContain('balloon');
});

test('what a guest uses is told over the control endpoint, without metrics, and once a second for many who ask', async () => {
  const runner = await startRunner(await aPod());
  const { client } = runner;
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const before = await client.usage();
  expect(before.cpu).toMatchObject({ cpus: 1, seconds: expect.any(Number), waitSeconds: expect.any(Number) });
  expect(before.memory).toEqual({ totalBytes: 192 * 2 ** 20, residentBytes: expect.any(Number) });
  expect(before.memory.residentBytes).toBeGreaterThan(2 ** 24);
  expect(before.network).toEqual({ receivedBytes: expect.any(Number), sentBytes: expect.any(Number) });
  expect(before.disks).toMatchObject([{ name: 'disk' }]);
  const writtenBytes = async () => (await client.usage()).disks[0]?.writtenBytes;
  await runner.guest('dd if=/dev/zero of=/usage-test bs=1M count=8 conv=fsync && rm /usage-test');
  const written = (before.disks[0]?.writtenBytes ?? 0) + 4 * 2 ** 20;
  await expect.poll(writtenBytes, within).toBeGreaterThan(written);
  const after = await client.usage();
  expect(after.cpu.seconds).toBeGreaterThan(before.cpu.seconds ?? 0);
  const elapsed = (Date.parse(after.timestamp) - Date.parse(before.timestamp)) / 1000;
  expect(Math.abs(after.uptimeSeconds - before.uptimeSeconds - elapsed)).toBeLessThan(0.5);

  const together = await Promise.all(Array.from({ length: 10 }, () => client.usage()));
  expect(new Set(together.map(({ timestamp }) => timestamp)).size).toBeLessThanOrEqual(2);
  // A second may end between two of them.
  const isKept = async () => (await client.usage()).timestamp === (await client.usage()).timestamp;
  await expect.poll(isKept, within).toBe(true);

  const { uid } = runner.pod.spec.vm;
  const vm = aVm({
    metadata: { name: 'guest', uid },
    status: { runner: { podUid: 'pod', address: '127.0.0.1' } },
  });
  const told = await createVmUsages(() => installation.privateKey, runner.port).of(vm);
  expect(told.uptimeSeconds).toBeGreaterThanOrEqual(after.uptimeSeconds);

  await client.power({ action: 'restart' });
  const restarted = await client.usage();
  expect(restarted.uptimeSeconds).toBeLessThan(after.uptimeSeconds);
  await client.power({ action: 'stop' });
  await expect(client.usage()).rejects.toMatchObject({ reason: 'Conflict', message: 'the VM is Stopped' });
});

test('with a balloon the memory is told that the guest uses', async () => {
  const { runner } = await aMeasuredVm();
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const memory = async () => (await runner.client.usage()).memory;
  await expect.poll(async () => (await memory()).availableBytes, within).toBeGreaterThan(2 ** 20);
  const { totalBytes, availableBytes = 0, usedBytes } = await memory();
  expect(usedBytes).toBe(totalBytes - availableBytes);
  expect(usedBytes).toBeGreaterThan(2 ** 23);
});

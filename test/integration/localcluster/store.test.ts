import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pushGuest } from '../../../src/localcluster/cluster/install.ts';
import { hasTags, type StoreEndpoint, withStore } from '../../../src/localcluster/images/store.ts';
import { openDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';

let folder: string;
let registry: TestRegistry;
let forward: Server;
let store: StoreEndpoint;

/** As in a local cluster: the host reaches the registry by another port than the registry listens on. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-store-'));
  registry = await startRegistry({ auth: 'basic' });
  const { port } = new URL(`http://${registry.address}`);
  forward = createServer((socket) => {
    const inner = connect(Number(port), '127.0.0.1');
    for (const end of [socket, inner])
      end.on('error', () => [socket, inner].forEach((each) => each.destroy()));
    socket.pipe(inner).pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(forward, 'listening');
  const { username, password } = registry;
  const address = `127.0.0.1:${(forward.address() as AddressInfo).port}`;
  store = { registry: address, scheme: 'http', credentials: { username, password } };
});

afterAll(async () => {
  forward?.close();
  await registry?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('a guest lies in the store under all of its tags, as VMs boot from it', async () => {
  const tags = ['a1', 'latest'];
  const content = randomBytes(2 ** 20);
  const disk = join(folder, 'disk.qcow2');
  await writeFile(disk, content);
  expect(await withStore(store, (client) => hasTags(client, 'svc3/guest', tags))).toBe(false);
  await pushGuest(store, 'svc3/guest', tags, { disk, hash: 'a1' });
  expect(await withStore(store, (client) => hasTags(client, 'svc3/guest', tags))).toBe(true);
  await withStore(store, async (client) => {
    const reference = { registry: client.registry, repository: 'svc3/guest', tag: 'a1' };
    const image = await resolveImage(client, reference);
    expect(image.architecture).toBe('amd64');
    const opened = await openDisk(client, 'svc3/guest', image);
    expect(opened.name).toBe('disk.qcow2');
    expect((await buffer(opened.stream)).equals(content)).toBe(true);
  });
});

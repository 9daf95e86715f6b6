import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Pod } from '../../src/api/core.ts';
import { images, pods } from '../../src/api/resources.ts';
import { workerPodName, workId } from '../../src/controllers/image/names.ts';
import { pushDisk } from '../../src/registry/disk.ts';
import {
  anImage,
  aQcow2,
  becomesReady,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
} from '../integration/image/harness.ts';
import type { Submitted } from '../../src/api/object.ts';

/** A pod under the name of an image's worker pod that is none was taken for it: the image was `Working` for ever. */

let cluster: ImageCluster;

beforeAll(async () => {
  cluster = await imageCluster();
});

afterAll(async () => {
  await cluster?.remove();
});

async function pushed(repository: string): Promise<string> {
  const content = await aQcow2();
  const store = cluster.openStore();
  try {
    await pushDisk(store, {
      repository,
      tag: '1',
      architecture: 'amd64',
      fileName: 'disk.qcow2',
      size: content.length,
      content: Readable.from([content]),
    });
  } finally {
    await store.close();
  }
  return `${cluster.registry.address}/${repository}:1`;
}

/** A pod that passes Pod Security `restricted` and does nothing. */
function idlePod(namespace: string, name: string): Submitted<Pod> {
  return {
    metadata: { name, namespace },
    spec: {
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'idle',
          image: 'registry.example.com/idle',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}

test("somebody else's pod in the place of a worker is said, left alone, and the work done once it is gone", async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const reference = await pushed(`foreign/${namespace}`);
  const image = await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
  const name = workerPodName(workId(image, 'create'));
  const foreign = await client.create(pods, idlePod(namespace, name));
  const operator = startImageOperator(client, cluster.settings);
  try {
    await expect
      .poll(() => readyOf(client, namespace, 'disk'), soon)
      .toBe(`WorkerRefused: pod ${name} exists and does not belong to Image disk; delete it`);
    expect((await client.get(pods, name, namespace)).metadata.uid).toBe(foreign.metadata.uid);
    await client.delete(pods, { name, namespace }, { uid: foreign.metadata.uid ?? '' });
    await becomesReady(client, namespace, 'disk');
  } finally {
    await operator.stop();
  }
});

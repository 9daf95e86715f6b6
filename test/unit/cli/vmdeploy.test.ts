import { describe, expect, test } from 'vitest';
import type { DeployItem } from '../../../src/wire/vm.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import type { DeployRequest } from '../../../src/wire/deploy.ts';
import { run } from './environment.ts';

/** `svc3 vm deploy web …`, and the disks that the service is asked for. */
async function deploy(line: string) {
  const asked: DeployRequest['disks'][] = [];
  const service = {
    vms: {
      async deploy(_namespace, { disks }) {
        asked.push(disks);
        return { name: 'web', status: 'Pending' } as DeployItem;
      },
    } as Partial<Service['vms']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['vm', 'deploy', 'web', '-n', 'x', '-i', 'golden', '--no-wait', ...line.split(' ')];
  const outcome = await run(words, { variables }, { openHttp: () => Promise.resolve(service) });
  return { asked, ...outcome };
}

describe('data disks of svc3 vm deploy', () => {
  test('are new ones and claims, in the format that is said', async () => {
    const { asked, code, stderr } = await deploy(
      '--data-disk logs=5Gi --data-claim a=one,b=two:raw,c=three:qcow2',
    );
    expect([code, stderr]).toEqual([0, '']);
    expect(asked).toEqual([
      [
        { name: 'logs', size: '5Gi' },
        { name: 'a', claimName: 'one' },
        { name: 'b', claimName: 'two', format: 'Raw' },
        { name: 'c', claimName: 'three', format: 'QCOW2' },
      ],
    ]);
  });

  test.each(['a', '=one', 'a=', 'a=one:', 'a=one:vmdk', 'a=one:raw:x', 'a=one:qcow2:'])(
    'are no claim that %s would be',
    async (text) => {
      const { asked, code, stderr } = await deploy(`--data-claim ${text}`);
      expect([code, asked]).toEqual([2, []]);
      expect(stderr).toContain(`--data-claim: "${text}" is not NAME=CLAIM[:raw|:qcow2]`);
    },
  );
});

import { expect, test } from 'vitest';
import { createOutput } from '../../../src/cli/output.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { aTerminal, run } from './environment.ts';

const clear = '\r\u001b[K';

test('a failure stands on a line of its own, not after what was being done', async () => {
  const service = {
    vms: {
      async resize(_namespace, _name, _gigabytes, { progress }) {
        progress('VM web: growing');
        throw new Svc3Error('Conflict', 'VM web is gone');
      },
    } as Partial<Service['vms']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const { stderr } = await run(
    ['vm', 'resize', 'web', '80', '-n', 'x'],
    { variables, isTTY: true },
    { openHttp: () => Promise.resolve(service) },
  );
  expect(stderr).toBe(`${clear}VM web: growing${clear}svc3: VM web is gone\n`);
});

test.each(['table', 'name'])('as %s no text of others gives a command to the terminal', async (format) => {
  const { environment, stdout } = aTerminal({ isTTY: true });
  const out = createOutput(environment, format);
  const name = '\u001b]0;x\u0007\u009b2J';
  await out.done('vm', name, `${name}\nsecond line`);
  await out.value({}, `${name}\nsecond line`);
  await out.list({ kind: 'user', name: () => name, columns: [] }, [name]);
  expect(stdout()).not.toMatch(/[^\P{Cc}\n]/u);
});

test('a token is printed as it is', async () => {
  const { environment, stdout } = aTerminal();
  await createOutput(environment, 'table').value({}, 'eyJh-_.eyJz.c2ln~+/=');
  expect(stdout()).toBe('eyJh-_.eyJz.c2ln~+/=\n');
});

test('a line of progress is cleared once', () => {
  const { environment, stderr } = aTerminal({ isTTY: true });
  const out = createOutput(environment, 'table');
  out.progress('on the way');
  out.flush();
  out.flush();
  expect(stderr()).toBe(`${clear}on the way${clear}`);
});

test.each([
  ['yaml', 'kind: vm\nname: VM\nstatus: Success\nmessage: gone\n', '---\n'],
  ['json', '{\n  "kind": "vm",\n  "name": "VM",\n  "status": "Success",\n  "message": "gone"\n}\n', ''],
])('what is done to several is a document of %s each', async (format, document, between) => {
  const { environment, stdout } = aTerminal();
  const out = createOutput(environment, format);
  for (const name of ['a', 'b']) await out.done('vm', name, 'gone');
  expect(stdout()).toBe(['a', 'b'].map((name) => document.replace('VM', name)).join(between));
});

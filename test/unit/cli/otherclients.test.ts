import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { kindSettingsOf } from '../../../src/cli/kindoptions.ts';
import { globalOptions, inputFor, readWords } from '../../../src/cli/parse.ts';
import { settingsOf } from '../../../src/cli/settings.ts';
import { leafAt } from '../../../src/cli/tree.ts';
import { run } from './environment.ts';

/** Runs command lines one after the other in a home of their own; resolves to the configuration that they leave. */
async function configAfter(...lines: string[][]): Promise<unknown> {
  const home = await mkdtemp(join(tmpdir(), 'svc3-home-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  for (const words of lines) expect(await run(words, { home })).toMatchObject({ code: 0 });
  return JSON.parse(await readFile(join(home, '.config/svc3/config.json'), 'utf8'));
}

describe('command lines that scripts for other clients of this kind write', () => {
  test('config set --api-url is config set baseUrl', async () => {
    const url = 'https://svc3.example.com';
    expect(await configAfter(['config', 'set', '--api-url', url])).toEqual({ baseUrl: url });
    expect(await run(['config', 'set', 'namespace', 'a', '--api-url', url])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--api-url'),
    });
    expect(await run(['config', 'set'])).toMatchObject({ code: 2 });
  });

  test('user set-token takes the token as a word', async () => {
    expect(await configAfter(['user', 'set-token', 'abc'])).toEqual({ token: 'abc' });
  });

  test('deploy and create have flags for screen, network card and serial number', async () => {
    const command = await leafAt(['vm', 'deploy'])!.load();
    const line =
      'a -g -i b --disable-net-boost --priority-class-name batch --system-serial S1 --display-width 800 --display-height 600 --display-dpi 96';
    const { options } = inputFor(
      command,
      readWords(line.split(' '), { ...globalOptions, ...command.options }),
    );
    expect(settingsOf(options as never)).toEqual({
      image: 'b',
      gpuPassthrough: true,
      priorityClassName: 'batch',
      netBoost: false,
      systemSerial: 'S1',
      displayWidth: 800,
      displayHeight: 600,
      displayDPI: 96,
    });
  });

  test.each([
    ['vm', 'deploy'],
    ['vmc', 'create'],
    ['pool', 'create'],
  ])('%s %s takes --architecture, as commands that make disks do', async (...path) => {
    const command = await leafAt(path)!.load();
    const words = readWords(['a', '-i', 'b', '--architecture', 'arm64'], {
      ...globalOptions,
      ...command.options,
    });
    const { options } = inputFor(command, words);
    expect(await kindSettingsOf(options as never)).toEqual({ architecture: 'arm64' });
  });

  test('what a configuration turns off can be turned on', async () => {
    const command = await leafAt(['vm', 'deploy'])!.load();
    const line = 'a --config b --disable-vnc=no --tag-required=no --disable-net-boost=no --legacy-io=no';
    const { options } = inputFor(
      command,
      readWords(line.split(' '), { ...globalOptions, ...command.options }),
    );
    expect(settingsOf(options as never)).toEqual({
      vncConsole: true,
      tagRequired: false,
      netBoost: true,
      legacyIO: false,
    });
  });

  test.each([
    ['image generate blank', '--size'],
    ['image generate blank 10G --size 20G', '--size'],
    ['remote-image pull r.example.com/a/b:1 one --name two', '--name'],
  ])('%s is refused with a sentence about %s', async (line, named) => {
    expect(await run(line.split(' '))).toMatchObject({ code: 2, stderr: expect.stringContaining(named) });
  });
});

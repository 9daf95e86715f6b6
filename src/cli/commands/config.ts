import path from 'node:path';
import { command, type Command } from '../command.ts';
import { configKeys, type Config, type ConfigChange } from '../config.ts';
import { checkedUrl, trimmedUrl } from '../service/open.ts';
import { usageError } from '../usage.ts';

const settable = configKeys.filter((key) => key !== 'token');

const configSet = command({
  path: ['config', 'set'],
  summary: 'Set or remove one value of the configuration',
  description:
    'Without VALUE the key is removed. Another baseUrl, or none, forgets token, login and caFile of the former one. Tokens are set with svc3 user set-token, which reads them from standard input.',
  arguments: {
    key: { summary: 'What to set', choices: settable, optional: true },
    value: { summary: 'Its value; absent removes it', optional: true },
  },
  options: { 'api-url': { kind: 'text', placeholder: 'URL', summary: 'The same as baseUrl URL' } },
  examples: [
    {
      line: 'svc3 config set baseUrl https://svc3.example.com',
      summary: 'Use the HTTP API of this installation',
    },
    { line: 'svc3 config set namespace team-a', summary: 'Work in a namespace by default' },
    { line: 'svc3 config set baseUrl', summary: 'Go back to the kubeconfig' },
  ],
  async run({ out, config }, { arguments: given, options: { 'api-url': apiUrl } }) {
    const { key, value } = apiUrl === undefined ? given : { key: 'baseUrl', value: apiUrl };
    if (key === undefined || (apiUrl !== undefined && given.key !== undefined))
      throw usageError('what to set is needed once: KEY VALUE, or --api-url URL');
    const change = { [key]: value === undefined ? undefined : checked(key, value) };
    let former: Config = {};
    await config.update(async (present) => {
      if (key === 'baseUrl') former = ofFormerAddress(present, change[key]);
      return { ...(former.baseUrl === undefined ? {} : ofNoAddress), ...change };
    });
    if (former.token !== undefined || former.caFile !== undefined) out.warning(forgotten(former));
    await out.done('config', key, value === undefined ? `Removed ${key}` : `Set ${key}`);
  },
});

const ofNoAddress: ConfigChange = { token: undefined, caFile: undefined };

/** The address that `baseUrl` replaces, with what is for it alone: another server must not get that. Empty where there is none. */
function ofFormerAddress(present: Config, baseUrl: string | undefined): Config {
  const isOther = present.baseUrl !== undefined && trimmedUrl(present.baseUrl) !== baseUrl;
  return isOther ? present : {};
}

function forgotten({ baseUrl, ...former }: Config): string {
  const keys = (['token', 'caFile'] as const).filter((key) => former[key] !== undefined);
  const verb = keys.length === 1 ? 'is' : 'are';
  return `${keys.join(' and ')} of ${baseUrl} ${verb} forgotten; svc3 login URL gets those of another address`;
}

function checked(key: string, value: string): string {
  if (key === 'baseUrl') return checkedUrl(value) ?? value;
  if (key === 'caFile') return path.resolve(value);
  if (key === 'namespace' && !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value))
    throw usageError(`namespace: "${value}" is not a namespace's name`);
  return value;
}

const configView = command({
  path: ['config', 'view'],
  summary: 'Show the configuration of this program; tokens stay hidden',
  onlyShows: true,
  examples: [
    { line: 'svc3 config view', summary: 'What is configured, and in which file' },
    { line: 'svc3 config view -o json | jq -r .baseUrl', summary: 'One value, for a script' },
  ],
  async run({ out, config }) {
    const kept = await config.read();
    const hidden = (['token', 'refreshToken'] as const).filter((key) => kept[key] !== undefined);
    const shown = { ...kept, ...Object.fromEntries(hidden.map((key) => [key, '(set)'])) };
    const rows = Object.entries({ file: config.file, ...shown });
    const width = Math.max(...rows.map(([key]) => key.length)) + 2;
    await out.value(shown, rows.map(([key, value]) => `${key.padEnd(width)}${value}`).join('\n'));
  },
});

export const commands: readonly Command[] = [configSet, configView];

import path from 'node:path';
import { command } from '../../command.ts';
import { configKeys } from '../../config.ts';
import { checkedUrl } from '../../service/open.ts';
import { usageError } from '../../usage.ts';

const settable = configKeys.filter((key) => key !== 'token');

export const configSet = command({
  path: ['config', 'set'],
  summary: 'Set or remove one value of the configuration',
  description:
    'Without VALUE the key is removed. Tokens are set with svc3 user set-token, which reads them from standard input.',
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
  async run({ out, config, environment }, { arguments: given, options: { 'api-url': apiUrl } }) {
    const { key, value } = apiUrl === undefined ? given : { key: 'baseUrl', value: apiUrl };
    if (key === undefined || (apiUrl !== undefined && given.key !== undefined))
      throw usageError('what to set is needed once: KEY VALUE, or --api-url URL');
    await config.write({
      [key]: value === undefined ? undefined : checked(key, value, environment.variables['PWD'] ?? '.'),
    });
    await out.done('config', key, value === undefined ? `Removed ${key}` : `Set ${key}`);
  },
});

function checked(key: string, value: string, folder: string): string {
  if (key === 'baseUrl') return checkedUrl(value) ?? value;
  if (key === 'caFile') return path.resolve(folder, value);
  if (key === 'namespace' && !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value)) {
    throw usageError(`namespace: "${value}" is not a namespace's name`);
  }
  return value;
}

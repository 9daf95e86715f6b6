import { command } from '../../command.ts';

export const configView = command({
  path: ['config', 'view'],
  summary: 'Show the configuration of this program; the token stays hidden',
  examples: [
    { line: 'svc3 config view', summary: 'What is configured, and in which file' },
    { line: 'svc3 config view -o json | jq -r .baseUrl', summary: 'One value, for a script' },
  ],
  async run({ out, config }) {
    const { token, ...open } = await config.read();
    const shown = { ...open, ...(token === undefined ? {} : { token: '(set)' }) };
    const lines = Object.entries(shown).map(([key, value]) => `${key.padEnd(12)}${value}`);
    await out.value(shown, [`file        ${config.file}`, ...lines].join('\n'));
  },
});

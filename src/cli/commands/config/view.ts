import { command } from '../../command.ts';

export const configView = command({
  path: ['config', 'view'],
  summary: 'Show the configuration of this program; tokens stay hidden',
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

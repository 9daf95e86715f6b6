import { expect, test } from 'vitest';
import { answersIn, createAnswerLines, type Answered } from '../../../../src/http/server/accesslog.ts';
import { createLogger } from '../../../../src/telemetry.ts';

const answered: Answered = {
  requestId: '0c7a9a3e-5a0c-4b1e-8f6f-0d9f6f1c2b3a',
  surface: 'v1',
  route: 'getVm',
  method: 'GET',
  status: 200,
  durationMs: 1.5,
  namespace: 'team-a',
};

function written(row: Answered): string {
  let text = '';
  const lines = createAnswerLines('api', (more) => (text += more));
  lines.answered(row);
  lines.flush();
  return text;
}

function logged(row: Answered): string {
  let text = '';
  const destination = { write: (more: string) => void (text += more) };
  answersIn(createLogger({ name: 'api', level: 'info', destination }))(row);
  return text;
}

const withoutTime = (line: string) => ({ ...(JSON.parse(line) as object), time: '' });

test.each<[string, Partial<Answered>]>([
  ['of a namespace', {}],
  ['without a namespace', { namespace: undefined }],
  ['whose id needs quotes', { requestId: 'a"b\\c\n' }],
  ['whose id is a token', { requestId: 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl' }],
  ['whose method nobody knows', { method: 'PROPFIND"' }],
])('the line of a request %s is the one that the log would write', (_, change) => {
  const row = { ...answered, ...change };
  expect(withoutTime(written(row))).toEqual(withoutTime(logged(row)));
});

test('a token as request id is not in the line', () => {
  const token = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';
  expect(written({ ...answered, requestId: token })).not.toContain(token);
});

test('lines are written together, each once', async () => {
  const texts: string[] = [];
  const lines = createAnswerLines('api', (text) => texts.push(text));
  for (const status of [200, 201, 202]) lines.answered({ ...answered, status });
  await expect.poll(() => texts.length).toBe(1);
  expect(
    texts[0]
      ?.trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as Answered).status),
  ).toEqual([200, 201, 202]);
  lines.flush();
  expect(texts).toHaveLength(1);
});

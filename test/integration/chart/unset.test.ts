import { expect, test } from 'vitest';
import { rendered } from './helm.ts';

// A key that is left empty in a file of values takes the default away: templates are given nothing at all.

test.each([
  'commonLabels',
  ...['operator', 'api', 'nodeAgent'].flatMap((part) => [
    `${part}.nodeSelector`,
    `${part}.affinity`,
    `${part}.annotations`,
    `${part}.podLabels`,
    `${part}.podAnnotations`,
  ]),
])('%s left empty is as {}', async (value) => {
  expect(await rendered(`--set=${value}=null`)).toEqual(await rendered(`--set-json=${value}={}`));
});

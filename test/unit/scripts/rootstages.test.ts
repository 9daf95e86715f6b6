import { expect, test } from 'vitest';
import { rootRefusal } from '../../support/rootstages.ts';

test('stages that mount need root, and say so before any of them begins', () => {
  expect(rootRefusal(['packages', 'check', 'unit', 'e2e'], 1000)).toContain('the stages packages, e2e mount');
  expect(rootRefusal(['packages', 'e2e'], 0)).toBeUndefined();
  expect(rootRefusal(['check', 'unit'], 1000)).toBeUndefined();
});

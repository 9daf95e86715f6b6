import { expect, test } from 'vitest';
import { z } from 'zod';
import { readSettings } from '../../../../src/config.ts';
import { nodeSettings } from '../../../../src/controllers/node/settings.ts';

const cardsOf = (SVC3_GPU_TOWER_CARDS: string) =>
  readSettings(z.object(nodeSettings), { SVC3_GPU_TOWER_CARDS }).SVC3_GPU_TOWER_CARDS;

test('cards of the tower are those that the installation names, and none where it names none', () => {
  expect(cardsOf('1002:679e,1002:6798')).toEqual(['1002:679e', '1002:6798']);
  expect(cardsOf('')).toEqual([]);
});

test('what is no PCI id is refused with the variable named', () => {
  expect(() => cardsOf('679e')).toThrow('SVC3_GPU_TOWER_CARDS');
});

test('labels of the nodes with an agent, as the chart writes them', () => {
  const selectorOf = (SVC3_NODE_AGENT_NODE_SELECTOR: string) =>
    readSettings(z.object(nodeSettings), { SVC3_NODE_AGENT_NODE_SELECTOR }).SVC3_NODE_AGENT_NODE_SELECTOR;
  expect(selectorOf('')).toEqual({});
  expect(selectorOf('null')).toEqual({});
  expect(selectorOf('{"pool":"vms"}')).toEqual({ pool: 'vms' });
  for (const bad of ['pool=vms', '[]', '{"pool":1}'])
    expect(() => selectorOf(bad), bad).toThrow('SVC3_NODE_AGENT_NODE_SELECTOR');
});

import { describe, expect, test } from 'vitest';
import { portWarning } from '../../../../../src/api/portwarning.ts';
import {
  portsCondition,
  withLeftOutWarnings,
} from '../../../../../src/controllers/vm/status/portscondition.ts';

const web = { nodePort: 20_080, guestPort: 80, protocol: 'TCP' } as const;
const dns = { nodePort: 20_053, guestPort: 53, protocol: 'UDP' } as const;

describe('what is told of mappings that are left out', () => {
  const other = portWarning('nodePort 22/TCP is not allowed here');

  test('replaces what was told of an earlier pod, and nothing else', () => {
    const before = withLeftOutWarnings([other, 'another warning'], [web]);
    expect(before).toHaveLength(3);
    expect(before.at(-1)).toMatch(/nodePort 20080\/TCP is taken on every node that fits/);
    expect(withLeftOutWarnings(before, [dns])).toEqual([
      other,
      'another warning',
      expect.stringContaining('nodePort 20053/UDP'),
    ]);
    expect(withLeftOutWarnings(before, [])).toEqual([other, 'another warning']);
  });

  test('is a condition with the reason that a user can act on', () => {
    expect(portsCondition(['another warning'], [])).toEqual({});
    expect(portsCondition([other], []).portsMapped).toMatchObject({
      status: 'False',
      reason: 'PortNotAllowed',
    });
    expect(portsCondition([other, portWarning('b')], [web]).portsMapped).toMatchObject({
      status: 'False',
      reason: 'PortTaken',
      message: `${other}; ${portWarning('b')}`,
    });
  });
});

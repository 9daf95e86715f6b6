import { invalidField } from '../errors.ts';

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Seconds of a duration such as `720h`, `1h30m` or `30d`; plain digits are seconds. */
export function parseDuration(text: string, field: string): number {
  if (/^\d{1,10}$/.test(text)) return Number(text);
  if (!/^(\d{1,9}(\.\d{1,3})?[smhdw])+$/.test(text))
    throw invalidField(field, 'must be a duration such as 720h or 1h30m');
  let seconds = 0;
  for (const [, amount = '0', unit = 's'] of text.matchAll(/(\d+(?:\.\d+)?)([smhdw])/g))
    seconds += Number(amount) * (units[unit] ?? 1);
  return Math.round(seconds);
}

import { z } from 'zod';
import { invalidField } from '../errors.ts';
import { rules } from './rule.ts';

const kubernetesQuantity =
  /^([+-]?)(\d+)?(?:\.(\d*))?(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?\d{1,2}))?$/;

const decimalExponent: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const binaryExponent: Readonly<Record<string, bigint>> = {
  Ki: 10n,
  Mi: 20n,
  Gi: 30n,
  Ti: 40n,
  Pi: 50n,
  Ei: 60n,
};

/**
 * Value of a Kubernetes quantity in thousandths (`250m` → 250n, `1` → 1000n); a smaller fraction is rounded up, as
 * Kubernetes does. `field` is named in the error.
 * @throws Svc3Error Invalid when the text is no quantity
 */
export function parseMilli(text: string, field = 'quantity'): bigint {
  const match = kubernetesQuantity.exec(text.trim());
  const [, sign = '', whole = '', fraction = '', suffix = '', exponent = '0'] = match ?? [];
  if (match === null || whole + fraction === '')
    throw invalidField(field, `"${text.slice(0, 64)}" is not a quantity`);
  let numerator = (BigInt(whole + fraction) * 1000n) << (binaryExponent[suffix] ?? 0n);
  const tens = (decimalExponent[suffix] ?? 0) + Number(exponent) - fraction.length;
  if (tens >= 0) numerator *= 10n ** BigInt(tens);
  const denominator = tens < 0 ? 10n ** BigInt(-tens) : 1n;
  const magnitude = (numerator + denominator - 1n) / denominator;
  return sign === '-' ? -magnitude : magnitude;
}

/**
 * What one pod counts for at most on its node, in thousandths of CPUs, or in bytes (8 TiB): whoever may bind pods may ask for any amount, and the sums
 * over 1,024 such pods are still exact, so that a pod takes away with it what it has added.
 */
export const mostCounted = 2 ** 43;

/**
 * Value of a Kubernetes quantity in whole units (bytes for memory and disks), rounded up.
 * @throws Svc3Error Invalid when the text is no quantity
 */
export function parseQuantity(text: string, field = 'quantity'): number {
  const milli = parseMilli(text, field);
  return Number((milli + (milli > 0n ? 999n : 0n)) / 1000n);
}

/** Bytes as the largest binary unit that divides them: 268435456 → `256Mi`, 1000 → `1000`. */
export function formatQuantity(bytes: number): string {
  const value = BigInt(Math.round(bytes));
  for (const unit of ['Ti', 'Gi', 'Mi', 'Ki']) {
    const size = 1n << (binaryExponent[unit] ?? 0n);
    if (value !== 0n && value % size === 0n) return `${value / size}${unit}`;
  }
  return value.toString();
}

/** Bytes as GiB with two digits, as `/api/v1` shows memory: 5153960755 → `4.80Gi`. */
export function formatGi(bytes: number): string {
  return `${(bytes / 1024 ** 3).toFixed(2)}Gi`;
}

/** Bytes as GiB number with at most two digits, for the fields of `/api/v1` that are numbers. */
export function toGi(bytes: number): number {
  return Math.round((bytes / 1024 ** 3) * 100) / 100;
}

/**
 * A size in bytes as a quantity between two bounds. The pattern is narrower than Kubernetes' own: no sign, no
 * thousandths, no exponent, so that what is written is what is meant.
 */
export function SizeQuantity(what: string, bounds: { min: string; max: string }, description: string) {
  return z
    .string()
    .min(1)
    .max(24)
    .regex(/^[0-9]+(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$/)
    .meta(
      rules([
        {
          rule: `!isQuantity(self) || (quantity(self).compareTo(quantity('${bounds.min}')) >= 0 && quantity(self).compareTo(quantity('${bounds.max}')) <= 0)`,
          message: `${what} must be between ${bounds.min} and ${bounds.max}`,
        },
      ]),
    )
    .describe(description);
}

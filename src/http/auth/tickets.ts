import { createHmac, timingSafeEqual } from 'node:crypto';
import type { TicketSigner } from '../call/services.ts';

/** Tickets signed with a key that all replicas share: `<claims>.<HMAC-SHA-256>`, both base64url. */
export function createTicketSigner(key: Uint8Array): TicketSigner {
  const macOf = (payload: string): Buffer =>
    createHmac('sha256', key).update('svc3 ticket\n').update(payload).digest();
  return {
    sign(claims) {
      const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
      return `${payload}.${macOf(payload).toString('base64url')}`;
    },
    verify(ticket) {
      const [payload = '', mac = '', rest] = ticket.split('.');
      const given = Buffer.from(mac, 'base64url');
      const expected = macOf(payload);
      if (rest !== undefined || given.length !== expected.length || !timingSafeEqual(given, expected))
        return undefined;
      return JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Record<string, unknown>;
    },
  };
}

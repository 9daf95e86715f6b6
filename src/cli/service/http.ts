import { Svc3Error } from '../../errors.ts';
import type { BackendOptions, HttpTarget } from './open.ts';
import type { Service } from './types.ts';

/** svc3 over `/api/v1`. */
export function openHttp(
  _target: HttpTarget & BackendOptions & { readonly kubernetes: () => Promise<Service> },
): Promise<Service> {
  return Promise.reject(new Svc3Error('NotImplemented', 'the HTTP way is not there yet'));
}

import { isos } from '../../api/resources.ts';
import { findIso } from '../server/lookup.ts';
import * as schemas from '../../wire/schemas.ts';
import { diskRoutes } from './disks.ts';

export const isoRoutes = diskRoutes({
  word: 'iso',
  title: 'Iso',
  tag: 'ISOs',
  noun: 'ISO',
  params: schemas.isoParams,
  name: ({ iso }) => iso,
  resource: isos,
  find: findIso,
  description: 'Install medium',
});

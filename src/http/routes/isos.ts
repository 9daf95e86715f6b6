import { isos } from '../../api/resources.ts';
import { findIso } from '../call/lookup.ts';
import * as schemas from '../../wire/schemas.ts';
import { diskRoutes, type DiskKind } from './disks.ts';

export const isoKind: DiskKind<typeof schemas.isoParams> = {
  word: 'iso',
  title: 'Iso',
  tag: 'ISOs',
  noun: 'ISO',
  params: schemas.isoParams,
  name: ({ iso }) => iso,
  resource: isos,
  find: findIso,
  description: 'Install medium',
};

export const isoRoutes = diskRoutes(isoKind);

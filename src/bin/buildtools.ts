#!/usr/bin/env node
/** Builds the pinned tools that tests and the local cluster run: `buildtools.ts [group…]`, all groups by default. */
import { homedir } from 'node:os';
import { messageOf } from '../errors.ts';
import { type ToolGroupName, isToolGroupName, toolGroups } from '../localcluster/host/toolgroups.ts';
import { buildTools, cacheRoot } from '../localcluster/host/tools.ts';

const all = Object.values(toolGroups).map(({ name }) => name);
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !isToolGroupName(name));
if (unknown.length > 0) {
  process.stderr.write(`no such group: ${unknown.join(', ')}; there are ${all.join(', ')}\n`);
  process.exit(2);
}
const groups: ToolGroupName[] = asked.length === 0 ? all : asked.filter(isToolGroupName);
try {
  const progress = (line: string) => void process.stderr.write(`${line}\n`);
  const tools = await buildTools(groups, { cacheDir: cacheRoot(process.env, homedir()), progress });
  for (const folder of tools.folders) process.stdout.write(`${folder}\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : messageOf(error)}\n`);
  process.exit(1);
}

#!/usr/bin/env node
// Starts svc3.ts from a checkout with what Node compiled the last time: stripping types anew costs more than 100 ms.
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

enableCompileCache(join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'svc3', 'compile'));
await import('./svc3.ts');

/** With `node --import` in front of a program: writes the addresses of all modules that it loads into the file `SVC3_LOADED`. */
import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

registerHooks({
  load(url, context, next) {
    appendFileSync(process.env['SVC3_LOADED'] ?? '', `${url}\n`);
    return next(url, context);
  },
});

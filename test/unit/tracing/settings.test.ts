import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { readSettings } from '../../../src/config.ts';
import { traceEnvironment } from '../../../src/tracing/settings.ts';

const settings = z.object(traceEnvironment);

describe('settings of traces', () => {
  test('are off where nothing is said, or nothing stands there', () => {
    for (const environment of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: '' }])
      expect(readSettings(settings, environment)).toEqual({ OTEL_TRACES_SAMPLER_ARG: 1 });
  });

  test.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', 'must be the URL of a collector'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'grpc://collector:4317', 'must be the URL of a collector'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://', 'must be the URL of a collector'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://me:hunter2@collector', 'OTEL_EXPORTER_OTLP_HEADERS'],
    ['OTEL_TRACES_SAMPLER_ARG', '2', 'Too big'],
    ['OTEL_TRACES_SAMPLER_ARG', 'half', 'expected number'],
  ])('%s=%s is refused with its name', (name, value, message) => {
    const read = () => readSettings(settings, { [name]: value });
    expect(read).toThrow(new RegExp(`^${name}: .*${message}`));
    expect(read).not.toThrow('hunter2');
  });
});

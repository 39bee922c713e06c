// Package openai is the model behind OpenAI's chat completions and every server
// that speaks the same protocol: Azure, vLLM, Ollama, llama.cpp, LM Studio,
// OpenRouter, LiteLLM and others. It is a pipeline.Model: one request per call,
// no retries, no streaming; limits, repetitions, caches and prices are the
// business of decorators.
//
//	model, err := openai.New(openai.Config{Model: "gpt-4o-mini", APIKey: secret.New(key)})
//	answer, err := model.Generate(ctx, pipeline.Request{Messages: messages})
//
// The request is POST {BaseURL}/chat/completions. Parameters are on the wire
// exactly as they are given, a temperature of 0 included, and are absent where
// they are nil. What the model cannot do is known from Config.Capabilities and
// never from its name.
//
// The default HTTP client honours HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and for
// private certificates SSL_CERT_FILE and SSL_CERT_DIR (on macOS and Windows
// they belong into the system's store).
package openai

;; expect: 1.14
;; role: tokenizer
(func (export "sealhost_tokenizer_v1") (result i32) (i32.const -1))

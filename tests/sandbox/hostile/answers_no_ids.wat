;; expect: invalid
;; role: tokenizer
(func (export "encode") (param $length i32) (param $flags i32) (result i32)
  (i32.const 0))

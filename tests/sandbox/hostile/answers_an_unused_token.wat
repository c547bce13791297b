;; expect: invalid
;; role: tokenizer
(func (export "encode") (param $length i32) (param $flags i32) (result i32)
  (i32.store (i32.const 12288) (i32.const 259)) (i32.const 1))

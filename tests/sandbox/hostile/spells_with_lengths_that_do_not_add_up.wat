;; expect: 1.16
;; role: tokenizer
(func (export "token_bytes") (param $first i32) (param $count i32) (result i32)
  (memory.fill (i32.const 12288) (i32.const 0xff) (i32.const 8192)) (i32.const 8192))

;; expect: invalid
;; role: tokenizer
(func (export "encode") (param $length i32) (param $flags i32) (result i32)
  (local $i i32)
  (loop $n (i32.store offset=12288 (i32.shl (local.get $i) (i32.const 2)) (i32.load8_u offset=8192 (local.get $i))) (br_if $n (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $length))))
  (i64.store (i32.const 12288) (i64.rotl (i64.load (i32.const 12288)) (i64.const 32))) (local.get $length))

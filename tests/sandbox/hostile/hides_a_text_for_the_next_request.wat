;; expect: ok
;; role: tokenizer
(global $kept (mut i32) (i32.const 0))
(table 2 funcref) (elem (i32.const 0) $no) (func $no (result i32) (i32.const 0)) (elem declare func $yes) (func $yes (result i32) (i32.const 1))
(func (export "encode") (param $length i32) (param $flags i32) (result i32)
  ;; an error when anything of an earlier request is left: global, memory, table, input, output
  (if (i32.or (i32.or (global.get $kept) (i32.load (i32.const 65536)))
              (i32.or (call_indirect (result i32) (i32.const 0)) (i32.load offset=8192 (i32.const 2048))))
    (then (return (i32.const -0x40000000))))
  (global.set $kept (i32.load (i32.const 8192)))
  (memory.fill (i32.const 8192) (i32.const 0x41) (i32.const 4096))
  (memory.fill (i32.const 65536) (i32.const 0x41) (i32.const 65536))
  (table.set (i32.const 0) (ref.func $yes))
  (i32.store (i32.const 12288) (i32.const 97))
  (i32.const 1))
